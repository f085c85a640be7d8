import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger, createMetrics } from '@triplock/runtime';
import { auditorMetrics } from './metrics.ts';
import { watchRetention, type RetentionWatch } from './kafka-retention.ts';

const hourMs = 3_600_000;

/** What the metrics say after one pass: seconds, ratio, dropped records. */
async function watched(
  unread: Awaited<ReturnType<RetentionWatch['unread']['look']>>,
  retentionMs: number,
): Promise<(number | undefined)[]> {
  const metrics = auditorMetrics(createMetrics('test'));
  const pass = watchRetention({
    unread: { look: () => Promise.resolve(unread) },
    readRetention: () =>
      Promise.resolve({
        outcome: 'known',
        retentionMs,
        segmentMs: retentionMs,
        retentionBytes: Infinity,
        keepsEveryRecord: true,
      }),
    metrics,
    logger: createLogger({ service: 'test', instance: 'test', level: 'silent' }),
  });
  await pass();
  const gauges = [metrics.oldestUnreadSeconds, metrics.retentionUsed, metrics.droppedUnread];
  return Promise.all(gauges.map(async (gauge) => (await gauge.get()).values[0]?.value));
}

test('the worker’s lag is measured against what Kafka keeps', async () => {
  assert.deepEqual(
    await watched({ records: 9n, oldestMs: 6 * hourMs, dropped: 0n }, 24 * hourMs),
    [21_600, 0.25, 0],
  );
  assert.deepEqual(
    await watched({ records: 9n, oldestMs: 6 * hourMs, dropped: 2n }, Infinity),
    [21_600, 0, 2],
  );
  assert.deepEqual(
    await watched({ records: 0n, oldestMs: 0, dropped: 0n }, 24 * hourMs),
    [0, 0, 0],
  );
});
