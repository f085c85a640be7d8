import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readSample } from './measurements.ts';

const metrics = (cpuSeconds: number, rssBytes: number) => `
# TYPE process_cpu_user_seconds_total counter
process_cpu_user_seconds_total{service="auditor"} 900
process_cpu_seconds_total{service="auditor"} ${cpuSeconds}
process_resident_memory_bytes{service="auditor"} ${rssBytes}
`;

test("a service's replicas are added up", () => {
  assert.deepEqual(readSample([metrics(1.5, 1_000), metrics(0.25, 500)]), {
    cpuMicros: 1_750_000,
    rssBytes: 1_500,
  });
});

test('a service that tells nothing of its CPU is an error and not a cost of nothing', () => {
  assert.throws(() => readSample(['up 1']), /tells nothing/);
  assert.throws(() => readSample([]), /tells nothing/);
});
