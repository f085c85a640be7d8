import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestTopic, eventually, testNamespace } from '@triplock/testing';
import type { Message } from 'kafkajs';
import { runConsumer } from './consumer.ts';
import type { MemberOptions } from './group-member.ts';
import { connectProducer } from './idempotent-producer.ts';
import type { RecordBatch, ReceivedRecord } from './log.ts';
import { openLossyNetwork } from './lossy-network.testing.ts';
import { openTopicOffsets } from './topic-offsets.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

/** A topic, a group, and what its consumers saw. */
async function aGroup(t: TestContext, partitions = 1) {
  const { brokers, topic } = await createTestTopic(t, { partitions });
  const connection = { brokers, clientId: 'test', logger, topic };
  const groupId = testNamespace('group');
  const producer = await connectProducer({ ...connection, sendLimitMs: 5_000 });
  const offsets = openTopicOffsets({ ...connection, groupId });
  t.after(() => Promise.all([producer.close(), offsets.close()]));

  const seen: ReceivedRecord[] = [];
  const consume = (wish: Partial<MemberOptions> = {}) => {
    const handle = async (batch: RecordBatch) => void seen.push(...batch.records);
    const consumer = runConsumer({ ...connection, groupId, handle, ...wish });
    t.after(() => consumer.close());
    return consumer;
  };
  const append = (...messages: Message[]) => producer.send(messages);
  const allCommitted = () =>
    eventually(async () => {
      assert.deepEqual(await offsets.committed(), await offsets.end());
      return true;
    });
  return { brokers, groupId, offsets, seen, consume, append, allCommitted };
}

const numbered = (count: number, partition: number): Message[] =>
  Array.from({ length: count }, (_, at) => ({ value: `${partition}/${at}`, partition }));
const valuesOf = (records: readonly ReceivedRecord[]) =>
  records.map(({ value }) => value?.toString());

test('a group starts at the beginning, keeps order within a partition, and commits what it handled', async (t) => {
  const { seen, consume, append, allCommitted } = await aGroup(t, 3);
  await append(...[0, 1, 2].flatMap((partition) => numbered(30, partition)));
  consume();
  await allCommitted();
  for (const partition of [0, 1, 2]) {
    const values = valuesOf(seen.filter((record) => record.partition === partition));
    assert.deepEqual(
      values,
      numbered(30, partition).map(({ value }) => value),
    );
  }
});

test('key, value and headers arrive as the bytes they were, null values too', async (t) => {
  const { seen, consume, append, allCommitted } = await aGroup(t);
  const odd = Buffer.from([0xff, 0x00, 0xfe]);
  await append(
    { key: odd, value: odd, headers: { one: odd, many: [Buffer.from('a'), Buffer.from('b')] } },
    { key: null, value: null },
  );
  consume();
  await allCommitted();
  const [first, second] = seen;
  assert.deepEqual([first?.key, first?.value, first?.offset], [odd, odd, 0n]);
  assert.deepEqual({ ...first?.headers }, { one: odd, many: [Buffer.from('a'), Buffer.from('b')] });
  assert.deepEqual([second?.key, second?.value, second?.offset], [null, null, 1n]);
});

test('a batch that fails comes again uncommitted, and other partitions do not wait for it', async (t) => {
  const { offsets, seen, consume, append, allCommitted } = await aGroup(t, 2);
  await append(...numbered(3, 0), ...numbered(3, 1));
  let broken = true;
  let failures = 0;
  consume({
    handle: async (batch) => {
      if (batch.partition === 0 && broken) {
        failures += 1;
        throw new Error('the database is away');
      }
      seen.push(...batch.records);
    },
  });
  await eventually(async () => failures >= 3 && seen.length === 3);
  await append(...numbered(1, 1));
  await eventually(async () => seen.length === 4);
  assert.equal((await offsets.committed()).get(0), 0n);
  broken = false;
  await allCommitted();
  assert.deepEqual(valuesOf(seen.filter((record) => record.partition === 0)), [
    '0/0',
    '0/1',
    '0/2',
  ]);
});

test('closing finishes and commits the batch in hand, and nothing comes twice', async (t) => {
  const { seen, consume, append, allCommitted } = await aGroup(t);
  await append(...numbered(5, 0));
  const inHand = Promise.withResolvers<void>();
  const finish = Promise.withResolvers<void>();
  const first = consume({
    handle: async (batch) => {
      inHand.resolve();
      await finish.promise;
      assert.equal(batch.isStale(), false);
      seen.push(...batch.records);
    },
  });
  await inHand.promise;
  const closed = first.close();
  finish.resolve();
  await closed;
  assert.equal(seen.length, 5);
  await append({ value: 'later' });
  consume();
  await allCommitted();
  assert.deepEqual(valuesOf(seen.slice(5)), ['later']);
});

test('the hook after a commit sees the offset committed', async (t) => {
  const { offsets, consume, append } = await aGroup(t);
  const committed = Promise.withResolvers<unknown>();
  await append(...numbered(4, 0));
  consume({ onCommitted: async () => committed.resolve((await offsets.committed()).get(0)) });
  assert.equal(await committed.promise, 4n);
});

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
  const inHand = Promise.withResolvers<RecordBatch>();
  const release = Promise.withResolvers<void>();
  consume({
    connect: network.connect,
    handle: async (batch) => {
      inHand.resolve(batch);
      await release.promise;
    },
  });
  const batch = await inHand.promise;
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

test('two members share the partitions, and one takes all when the other leaves', async (t) => {
  const { consume, append, allCommitted } = await aGroup(t, 4);
  const partitionsOf = [new Set<number>(), new Set<number>()];
  const [first] = partitionsOf.map((partitions) =>
    consume({ handle: async (batch) => void partitions.add(batch.partition) }),
  );
  await eventually(async () => {
    await append(...[0, 1, 2, 3].flatMap((partition) => numbered(1, partition)));
    await allCommitted();
    return partitionsOf.every(({ size }) => size > 0);
  });
  await first!.close();
  partitionsOf[1]!.clear();
  await append(...[0, 1, 2, 3].flatMap((partition) => numbered(1, partition)));
  await allCommitted();
  assert.deepEqual([...partitionsOf[1]!].sort(), [0, 1, 2, 3]);
});
