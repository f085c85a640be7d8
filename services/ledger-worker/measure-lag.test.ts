import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMetrics } from '@triplock/runtime';
import type { ReceivedRecord, RecordBatch } from '@triplock/transport';
import { meterLag } from './measure-lag.ts';
import { workerMetrics } from './metrics.ts';

/** Records `from` to before `to` of a partition that ends at `end`. */
function aBatch(partition: number, [from, to, end]: [bigint, bigint, bigint]): RecordBatch {
  const records: ReceivedRecord[] = [];
  for (let offset = from; offset < to; offset += 1n) {
    const place = { topic: 't', partition, offset };
    records.push({ ...place, key: null, value: null, headers: {}, timestamp: '0' });
  }
  return { partition, records, end, heartbeat: async () => undefined, isStale: () => false };
}

test('the lag is told of the partitions that are assigned, and of no others', async () => {
  const metrics = workerMetrics(createMetrics('test'));
  const meter = meterLag(metrics);
  const lag = async () =>
    Object.fromEntries(
      (await metrics.lag.get()).values.map(({ labels, value }) => [labels.partition, value]),
    );
  meter.assigned([0, 1]);
  assert.deepEqual(await lag(), { 0: 0, 1: 0 });
  const batch = aBatch(0, [10n, 15n, 100n]);
  meter.saw(batch, 'in-hand');
  assert.deepEqual(await lag(), { 0: 90, 1: 0 });
  meter.saw(batch, 'committed');
  assert.deepEqual(await lag(), { 0: 85, 1: 0 });

  meter.assigned([1, 2]);
  meter.saw(batch, 'committed');
  assert.deepEqual(await lag(), { 1: 0, 2: 0 });
  meter.assigned([]);
  assert.deepEqual(await lag(), {});
});
