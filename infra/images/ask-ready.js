// The health check of a container of ours, whose image has no curl: `node ask-ready.js URL` ends
// with 0 when the URL answers 200, else with 1.
import { get } from 'node:http';

get(process.argv[2], ({ statusCode }) => process.exit(statusCode === 200 ? 0 : 1)).on('error', () =>
  process.exit(1),
);
