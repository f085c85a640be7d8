import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { eventually } from '@triplock/testing';
import { aGroup, numbered } from '../test/consumer-group.ts';
import type { RecordBatch } from './record-batches.ts';
import { openLossyNetwork } from '../test/lossy-network.ts';

// Side by side, because each waits for a session or for retries to be over.
suite('a consumer in trouble', { concurrency: true }, () => {
  test('a handler that takes longer than the session keeps its partition', async (t) => {
    const { seen, consume, append, allCommitted } = await aGroup(t);
    await append(...numbered(2, 0));
    let handled = 0;
    const start = performance.now();
    consume({
      handle: async (batch) => {
        handled += 1;
        await eventually(async () => performance.now() - start > 8_000);
        assert.equal(batch.isStale(), false);
        seen.push(...batch.records);
      },
    });
    await allCommitted();
    assert.deepEqual([handled, seen.length], [1, 2]);
  });

  test('a worker cut off for longer than its session learns that its batch is stale, and another finishes it', async (t) => {
    const { brokers, seen, consume, append, allCommitted } = await aGroup(t);
    const network = await openLossyNetwork(brokers[0]!);
    t.after(() => network.close());
    await append(...numbered(3, 0));
    const underWay = Promise.withResolvers<RecordBatch>();
    const release = Promise.withResolvers<void>();
    consume({
      connect: network.connect,
      handle: async (batch) => {
        underWay.resolve(batch);
        await release.promise;
      },
    });
    const batch = await underWay.promise;
    network.freeze();
    consume();
    await allCommitted();
    assert.equal(seen.length, 3);
    network.thaw();
    await eventually(async () => batch.isStale());
    await assert.rejects(batch.heartbeat());
    release.resolve();
    await append({ value: 'after', partition: 0 });
    await allCommitted();
  });

  test('a consumer that starts before its broker, or loses it for long, goes on by itself', async (t) => {
    const { brokers, seen, consume, append, allCommitted } = await aGroup(t);
    const network = await openLossyNetwork(brokers[0]!);
    t.after(() => network.close());
    network.cut();
    const consumer = consume({ connect: network.connect });
    await assert.rejects(consumer.ping());
    await append(...numbered(2, 0));
    network.mend();
    await allCommitted();
    await consumer.ping();

    network.cut();
    await append({ value: 'meanwhile', partition: 0 });
    // Until kafkajs gave up, so that it is our restart that brings it back.
    await eventually(() => assert.rejects(consumer.ping(), /not a member/).then(() => true));
    network.mend();
    await allCommitted();
    assert.equal(seen.at(-1)?.value?.toString(), 'meanwhile');
  });
});
