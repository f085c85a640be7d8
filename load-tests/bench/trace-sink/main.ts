import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { answerParent } from '../answer-parent.ts';
import type { TraceSinkState } from './trace-sink.ts';

// A collector that keeps nothing, so that only what services do for their spans is measured.
let requests = 0;
let bytes = 0;
const server = createServer((request, response) => {
  requests += 1;
  request.on('data', (chunk: Buffer) => (bytes += chunk.length));
  request.on('end', () => response.writeHead(200).end());
});
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
const { port } = server.address() as AddressInfo;

answerParent<object, TraceSinkState>(async () => {
  return { url: `http://127.0.0.1:${port}`, requests, bytes };
});
