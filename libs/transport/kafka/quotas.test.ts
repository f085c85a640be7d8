import assert from 'node:assert/strict';
import { suite } from 'node:test';
import { createLogger, createMetrics } from '@triplock/runtime';
import { createTestTopic, eventually, testNamespace } from '@triplock/testing';
import { limitClient } from '../test/quota.ts';
import { aGroup, testEveryDriver as test } from '../test/topic.ts';
import { groupJoins, meterThrottles } from './client-metrics.ts';
import { connectProducer } from './producer.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

const partitions = 6;
const value = 'x'.repeat(10_000);
const fifty = (partition: number) => Array.from({ length: 50 }, () => ({ value, partition }));

// Each waits for most of its time.
suite('under a quota', { concurrency: true }, () => {
  test('a member whose fetches are held back stays in its group and comes to the end', async (t) => {
    const { brokers, seen, consume, append, allCommitted } = await aGroup(t, partitions);
    for (let partition = 0; partition < partitions; partition += 1) {
      await append(...fifty(partition));
      await append(...fifty(partition));
    }
    const registry = createMetrics('test');
    const joins = groupJoins(registry, { accepted: 0 });
    const onThrottled = meterThrottles(registry);
    const clientId = testNamespace('limited');
    // A window of Kafka's, 10 s, is half of all there is; in a session of 6 s a fetch of it that
    // has to be paid for is too much.
    await limitClient(t, { brokers, clientId }, { consumer_byte_rate: 300_000 });
    consume({ clientId, onThrottled, onJoined: () => joins.count('accepted') });
    await allCommitted();
    assert.ok((await throttledSeconds(registry)) > 5);
    // Another one if this machine itself stood still for a session.
    assert.ok(joins.counted().accepted! <= 2, `${joins.counted().accepted} joins`);
    assert.ok(seen.length <= 700, `${seen.length} handled for 600`);
  });

  test('a producer that is held back knows for how long', async (t) => {
    const { brokers, topic } = await createTestTopic(t);
    const clientId = testNamespace('limited');
    await limitClient(t, { brokers, clientId }, { producer_byte_rate: 100_000 });
    const registry = createMetrics('test');
    const onThrottled = meterThrottles(registry);
    const connection = { brokers, topic, clientId, logger, driver: t.driver, onThrottled };
    const producer = await connectProducer({ ...connection, sendLimitMs: 60_000 });
    t.after(() => producer.close());
    await producer.send(fifty(0));
    assert.equal(await throttledSeconds(registry), 0);
    await producer.send(fifty(0));
    await producer.send(fifty(0));
    await eventually(async () => (await throttledSeconds(registry)) > 1);
  });
});

async function throttledSeconds(registry: ReturnType<typeof createMetrics>): Promise<number> {
  const metric = registry.getSingleMetric('triplock_kafka_throttled_seconds_total')!;
  return (await metric.get()).values[0]!.value;
}
