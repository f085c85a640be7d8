import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMetrics } from '@triplock/runtime';
import { workerMetrics } from './metrics.ts';

test('each call of the provider is there from the start, by what may be known of it', async () => {
  const { calls } = workerMetrics(createMetrics('test'));
  const { values } = await calls.get();
  const counts = values.filter(({ metricName }) => metricName?.endsWith('_count'));
  assert.equal(counts.length, 12);
  assert.ok(counts.every(({ value }) => value === 0));
});
