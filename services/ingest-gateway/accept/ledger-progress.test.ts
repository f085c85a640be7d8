import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '@triplock/runtime';
import {
  aPayment,
  commitTestOffset,
  createTestTopic,
  eventually,
  patientAppends,
  recreateTestTopic,
  testNamespace,
} from '@triplock/testing';
import { openGroupCommit, openTopicOffsets, partitionOfKey } from '@triplock/transport';
import { watchExpired, watchProgress, writeBarrier } from './ledger-progress.ts';
import { watchUnposted } from './unposted.ts';

const at = (offset: bigint) => new Map([[0, offset]]);

const offsetsOf = (offsets: readonly bigint[]) => new Map(offsets.entries());

/** A topic of one partition of which Kafka says what a test wants it to. */
function toldOffsets(position: { committed: bigint; end: bigint }) {
  const offsets = {
    committed: () => Promise.resolve(at(position.committed)),
    end: () => Promise.resolve(at(position.end)),
  };
  return { position, progress: watchProgress(offsets) };
}

test('a barrier is passed once the group has committed it, and stays passed', async () => {
  const { position, progress } = toldOffsets({ committed: 2n, end: 3n });
  const barrier = writeBarrier(at(3n));
  assert.equal(await progress.hasPassed(barrier), false);
  position.committed = 3n;
  assert.equal(await progress.hasPassed(barrier), true);
  position.committed = 0n; // An operator has the group read the topic again.
  assert.equal(await progress.hasPassed(barrier), true);
});

test('what a group did with a topic that was deleted says nothing about the new one', async () => {
  const { position, progress } = toldOffsets({ committed: 50n, end: 50n });
  assert.equal(await progress.hasPassed(writeBarrier(at(50n))), true);
  Object.assign(position, { committed: 0n, end: 50n }); // Made anew, and as long as it was.
  const barrier = writeBarrier(at(50n));
  assert.equal(await progress.hasPassed(barrier), false);
  position.committed = 50n;
  assert.equal(await progress.hasPassed(barrier), true);
});

/** A record key of this partition. */
function keyIn(partition: number, { of }: { of: number }): string {
  for (let n = 0; ; n += 1) if (partitionOfKey(`key-${n}`, of) === partition) return `key-${n}`;
}

test('a key waits for its own partition alone, and one that is not known for all', async () => {
  const barrier = writeBarrier(offsetsOf([3n, 3n]));
  const position = { committed: offsetsOf([3n, 0n]), end: offsetsOf([3n, 3n]) };
  const progress = watchProgress({
    committed: async () => position.committed,
    end: async () => position.end,
  });
  const [posted, waiting] = [keyIn(0, { of: 2 }), keyIn(1, { of: 2 })];
  assert.equal(await progress.hasPassed(barrier, posted), true);
  assert.equal(await progress.hasPassed(barrier, waiting), false);
  assert.equal(await progress.hasPassed(barrier), false);
  position.committed = offsetsOf([0n, 3n]);
  assert.equal(await progress.hasPassed(barrier, waiting), true);
  assert.equal(await progress.hasPassed(barrier), true);
});

test('once partitions were added, a key waits for all that the barrier names', async () => {
  const barrier = writeBarrier(offsetsOf([3n, 3n]));
  const position = { committed: offsetsOf([3n, 0n, 0n]), end: offsetsOf([3n, 3n, 0n]) };
  const progress = watchProgress({
    committed: async () => position.committed,
    end: async () => position.end,
  });
  const key = keyIn(0, { of: 2 });
  for (let asked = 0; asked < 2; asked += 1) {
    assert.equal(await progress.hasPassed(barrier, key), false);
  }
  position.committed = offsetsOf([3n, 3n, 0n]);
  assert.equal(await progress.hasPassed(barrier, key), true);
});

test('every answer was asked for after its question', async () => {
  const questions: ((committed: bigint) => void)[] = [];
  const committed = () =>
    new Promise<Map<number, bigint>>((answer) => {
      questions.push((offset) => answer(at(offset)));
    });
  const progress = watchProgress({ committed, end: () => Promise.resolve(at(9n)) });
  const asked = (times: number) => eventually(async () => questions.length === times);
  const first = progress.hasPassed(writeBarrier(at(5n)));
  await asked(1);
  const later = [1, 2].map(() => progress.hasPassed(writeBarrier(at(5n))));
  questions[0]!(9n);
  assert.equal(await first, true);
  await asked(2);
  questions[1]!(4n);
  assert.deepEqual(await Promise.all(later), [false, false]);
});

test('on Kafka: a topic made anew is noticed, and nobody waits for what went with the old one', async (t) => {
  const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
  const place = await createTestTopic(t);
  const connection = { ...place, clientId: 'test', logger };
  const groupId = testNamespace('worker');
  const offsets = openTopicOffsets({ ...connection, groupId });
  t.after(() => offsets.close());
  const append = async (records: number) => {
    const log = openGroupCommit({ ...connection, limits: patientAppends });
    const headers = { traceparent: '', partner_id: 'acme' };
    const record = { key: 'k', value: Buffer.from('a record'), headers };
    await Promise.all(Array.from({ length: records }, () => log.append(record)));
    await log.close();
  };
  const barrier = async () => writeBarrier(await offsets.end());
  const progress = watchProgress(offsets);

  await append(50);
  const before = await barrier();
  assert.equal(await progress.hasPassed(before), false);
  await recreateTestTopic(place);
  await append(40);
  assert.equal(await progress.hasPassed(before), true);
  // The group still has an offset of the old topic.
  await commitTestOffset(place, { groupId, offset: 50 });
  assert.equal(await progress.hasPassed(await barrier()), false);
});

test('what the ledger does not know was never accepted once it is less than an hour late, and a while after', async () => {
  const hourAgo = Date.now() - 3_600_000;
  const position = { young: 3n, committed: 2n };
  const asked: Date[] = [];
  const expired = watchExpired({
    since: async (time) => (asked.push(time), at(position.young)),
    committed: async () => at(position.committed),
  });
  assert.equal(await expired.arePosted(), false);
  position.committed = 3n;
  assert.equal(await expired.arePosted(), true);
  position.young = 9n; // What is an hour old now has a claim that lives for most of a day.
  assert.equal(await expired.arePosted(), true);
  assert.equal(asked.length, 2);
  for (const time of asked) assert.ok(Math.abs(time.getTime() - hourAgo) < 60_000);
});

test('what was known of expired claims is asked again after a while', async () => {
  const position = { young: 3n, committed: 3n };
  const offsets = {
    since: async () => at(position.young),
    committed: async () => at(position.committed),
  };
  const expired = watchExpired(offsets, 50);
  assert.equal(await expired.arePosted(), true);
  position.young = 4n; // No worker came for more than an hour.
  await eventually(async () => (await expired.arePosted()) === false);
});

test('of expired claims, only those whose records are in a late partition are unknown', async () => {
  const expired = watchExpired({
    since: async () => offsetsOf([3n, 3n]),
    committed: async () => offsetsOf([3n, 0n]),
  });
  assert.equal(await expired.arePosted(keyIn(0, { of: 2 })), true);
  assert.equal(await expired.arePosted(keyIn(1, { of: 2 })), false);
  assert.equal(await expired.arePosted(), false);
});

/** What was accepted, over a topic of which Kafka says what a test wants it to, and is renewed. */
function toldUnposted(position: { committed: bigint; end: bigint }) {
  const renewed: string[][] = [];
  const state = { isAway: false };
  const say = async (offset: bigint) => {
    if (state.isAway) throw new Error('Kafka is away');
    return at(offset);
  };
  const unposted = watchUnposted({
    claims: {
      renewShown: async (claims) => void renewed.push(claims.map(({ txnId }) => txnId)),
    },
    offsets: { committed: () => say(position.committed), end: () => say(position.end) },
    logger: createLogger({ service: 'test', instance: 'test', level: 'silent' }),
  });
  return { unposted, renewed, position, state };
}

test('what reads show is renewed from one look to the next until the ledger has passed it, and no longer', async () => {
  const { unposted, renewed, position } = toldUnposted({ committed: 0n, end: 0n });
  const [first, second] = [aPayment(), aPayment()];
  unposted.add(first);
  position.end = 1n;
  await unposted.renew();
  assert.deepEqual(renewed, [], 'it is young: it has its whole life before it');
  unposted.add(second);
  position.end = 2n;
  await unposted.renew();
  await unposted.renew();
  assert.deepEqual(renewed, [[first.txnId], [first.txnId, second.txnId]]);
  position.committed = 1n;
  await unposted.renew();
  assert.deepEqual(renewed.at(-1), [second.txnId]);
  position.committed = 2n;
  await unposted.renew();
  await unposted.renew();
  assert.equal(renewed.length, 3);
});

test('while Kafka does not say how far the ledger is, what reads show is renewed', async () => {
  const { unposted, renewed, position, state } = toldUnposted({ committed: 0n, end: 1n });
  const payment = aPayment();
  unposted.add(payment);
  state.isAway = true;
  for (let look = 0; look < 3; look += 1) await unposted.renew();
  assert.deepEqual(renewed, [[payment.txnId], [payment.txnId]]);
  state.isAway = false;
  await unposted.renew();
  position.committed = 1n;
  await unposted.renew();
  await unposted.renew();
  assert.equal(renewed.length, 3);
});
