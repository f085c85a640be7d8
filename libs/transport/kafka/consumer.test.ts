import assert from 'node:assert/strict';
import { suite } from 'node:test';
import { appendInTransaction, eventually } from '@triplock/testing';
import type { ReceivedRecord } from './driver.ts';
import type { RecordBatch } from './record-batches.ts';
import { openLossyNetwork } from '../test/bad-network.ts';
import { aGroup, numbered, testEveryDriver as test } from '../test/topic.ts';

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

test('what a batch asks to be read first is read next, then the batch, which alone is committed', async (t) => {
  const { offsets, seen, consume, append, allCommitted } = await aGroup(t);
  await append(...numbered(3, 0));
  const first = consume();
  await allCommitted();
  await first.close();
  await append({ value: 'later' });
  const asked: bigint[] = [];
  const lost: unknown[] = [];
  consume({
    onLost: (gap) => lost.push(gap),
    handle: async (batch) => {
      asked.push(batch.from);
      if (asked.length > 1) return void seen.push(...batch.records);
      assert.equal((await offsets.committed()).get(0), 3n);
      return { readFrom: 1n };
    },
  });
  await allCommitted();
  assert.deepEqual(asked.slice(0, 2), [3n, 1n]);
  assert.deepEqual(valuesOf(seen.slice(3)), ['0/1', '0/2', 'later']);
  assert.deepEqual(lost, []);
});

test('closing finishes and commits the batch under way, and nothing comes twice', async (t) => {
  const { seen, consume, append, allCommitted } = await aGroup(t);
  await append(...numbered(5, 0));
  const underWay = Promise.withResolvers<void>();
  const finish = Promise.withResolvers<void>();
  const first = consume({
    handle: async (batch) => {
      underWay.resolve();
      await finish.promise;
      assert.equal(batch.isStale(), false);
      seen.push(...batch.records);
    },
  });
  await underWay.promise;
  const closed = first.close();
  finish.resolve();
  await closed;
  assert.equal(seen.length, 5);
  await append({ value: 'later' });
  consume();
  await allCommitted();
  assert.deepEqual(valuesOf(seen.slice(5)), ['later']);
});

test('a group passes what is in the log and no record: the marker of a transaction, and what was aborted', async (t) => {
  const { brokers, topic, offsets, seen, consume, append, allCommitted } = await aGroup(t, 2);
  const inTransaction = (value: string, end: 'commit' | 'abort') =>
    appendInTransaction({ brokers, topic }, { message: { value, partition: 0 }, end });
  const skipped: bigint[] = [];
  const onSkipped = async ({ next }: { next: bigint }) => void skipped.push(next);
  // Fetched together, and its marker by itself; by a member that has met no record yet, too.
  await inTransaction('with its marker', 'commit');
  await inTransaction('never', 'abort');
  const first = consume({ onSkipped });
  await allCommitted();
  assert.deepEqual((await offsets.committed()).get(0), 4n);
  await inTransaction('never', 'abort');
  await allCommitted();
  await first.close();
  await inTransaction('never', 'abort');
  consume({ onSkipped });
  await allCommitted();
  assert.deepEqual((await offsets.committed()).get(0), 8n);
  assert.deepEqual(valuesOf(seen), ['with its marker']);
  assert.ok(skipped.includes(8n), skipped.join());
  await append({ value: 'later', partition: 0 });
  await allCommitted();
  assert.deepEqual(valuesOf(seen), ['with its marker', 'later']);
});

test('what holds no record is passed once its hook succeeds, and moves no offset back', async (t) => {
  const { brokers, topic, offsets, consume, append, allCommitted } = await aGroup(t);
  const abort = () =>
    appendInTransaction({ brokers, topic }, { message: { value: 'never' }, end: 'abort' });
  let failures = 0;
  const late = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
  const consumer = consume({
    onSkipped: async ({ next }) => {
      if (next === 2n && (failures += 1) < 3) throw new Error('the database is away');
      if (next === 4n) {
        late[0].resolve();
        await late[1].promise;
      }
    },
  });
  await abort();
  await allCommitted();
  assert.equal(failures, 3);
  await abort();
  await late[0].promise;
  await append({ value: 'meanwhile' });
  await allCommitted();
  late[1].resolve();
  await consumer.close();
  assert.deepEqual((await offsets.committed()).get(0), 5n);
});

test('what comes while a partition that was read to its end rests is handled together', async (t) => {
  const { consume, append, seen, allCommitted } = await aGroup(t);
  const batches: number[] = [];
  const first = Promise.withResolvers<void>();
  const gatherMs = 1_000;
  const handle = async ({ records }: RecordBatch) => {
    seen.push(...records);
    batches.push(records.length);
    first.resolve();
  };
  consume({ gatherMs, handle });
  await append(...numbered(1, 0));
  await first.promise;
  const startedAt = performance.now();
  for (const message of numbered(5, 0)) await append(message);
  const tookMs = performance.now() - startedAt;
  await allCommitted();
  assert.equal(seen.length, 6);
  assert.equal(batches[0], 1);
  assert.ok(batches.length < 4 + tookMs / gatherMs, `batches of ${batches.join()}`);
});

test('the hook after a commit sees the offset committed', async (t) => {
  const { offsets, consume, append } = await aGroup(t);
  const committed = Promise.withResolvers<unknown>();
  await append(...numbered(4, 0));
  consume({ onCommitted: async () => committed.resolve((await offsets.committed()).get(0)) });
  assert.equal(await committed.promise, 4n);
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
    const { brokers, offsets, seen, consume, append, allCommitted } = await aGroup(t);
    const network = await openLossyNetwork(brokers[0]!);
    t.after(() => network.close());
    await append(...numbered(3, 0));
    const underWay = Promise.withResolvers<RecordBatch>();
    const release = Promise.withResolvers<void>();
    const cutOff = consume({
      dial: network.dial,
      handle: async (batch) => {
        underWay.resolve(batch);
        await release.promise;
      },
    });
    const batch = await underWay.promise;
    network.freeze();
    consume();
    await allCommitted();
    await append(...numbered(2, 0));
    await allCommitted();
    assert.equal(seen.length, 5);
    network.thaw();
    await eventually(async () => batch.isStale());
    await assert.rejects(batch.heartbeat());
    release.resolve();
    await cutOff.close();
    assert.equal((await offsets.committed()).get(0), 5n, 'it committed what is no longer its own');
    await append({ value: 'after', partition: 0 });
    await allCommitted();
  });

  test('a consumer that starts before its broker, or loses it for long, goes on by itself', async (t) => {
    const { brokers, seen, consume, append, allCommitted } = await aGroup(t);
    const network = await openLossyNetwork(brokers[0]!);
    t.after(() => network.close());
    network.cut();
    const consumer = consume({ dial: network.dial });
    await assert.rejects(consumer.ping());
    await append(...numbered(2, 0));
    network.mend();
    await allCommitted();
    await consumer.ping();

    network.cut();
    await append({ value: 'meanwhile', partition: 0 });
    // Until the library gave up, so that it is our restart that brings it back.
    await eventually(() => assert.rejects(consumer.ping(), /not a member/).then(() => true));
    network.mend();
    await allCommitted();
    assert.equal(seen.at(-1)?.value?.toString(), 'meanwhile');
  });
});
