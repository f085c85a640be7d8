import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readRecording } from './k6.ts';

const aggregates = {
  counter: ['count', 'rate'],
  gauge: ['value'],
  trend: ['med', 'p(95)', 'p(99)'],
};
const lines = (...each: object[]) => each.map((line) => JSON.stringify(line)).join('\n');

test('a snapshot is read by the names that were known when it was taken', () => {
  const text = lines(
    { event: 'param', data: { aggregates } },
    { event: 'metric', data: { time: { type: 'gauge' } } },
    { event: 'start', data: [[10_000]] },
    {
      event: 'metric',
      data: { http_reqs: { type: 'counter' }, http_req_duration: { type: 'trend' } },
    },
    { event: 'cumulative', data: [[9, 9, 9], [9, 9], [12_000]] },
    { event: 'snapshot', data: [[1.5, 2.5, 3.5], [40, 20], [12_000]] },
    { event: 'metric', data: { payments_accepted: { type: 'counter' } } },
    { event: 'snapshot', data: [[4, 5, 6], [60, 30], [28, 14], [14_000]] },
    { event: 'stop', data: [[14_100]] },
  );
  assert.deepEqual(readRecording(text), [
    { second: 2, requestsPerSecond: 20, acceptedPerSecond: 0, p50Ms: 1.5, p95Ms: 2.5, p99Ms: 3.5 },
    { second: 4, requestsPerSecond: 30, acceptedPerSecond: 14, p50Ms: 4, p95Ms: 5, p99Ms: 6 },
  ]);
});

test('a run that was too short for a snapshot has no moments', () => {
  assert.deepEqual(readRecording(''), []);
});
