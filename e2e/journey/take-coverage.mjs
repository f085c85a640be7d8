// Loaded before a service: on SIGUSR2 it writes what ran since the last time, as V8 counted it,
// into NODE_V8_COVERAGE, and counts from nought again.
import { takeCoverage } from 'node:v8';

process.on('SIGUSR2', () => takeCoverage());
