import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createLogger, type Logger } from '@triplock/runtime';
import { eventually } from '@triplock/testing';
import { openChangingNetwork, type Reply } from '../test/bad-network.ts';
import { aGroup, numbered, testEveryDriver, type DriverTest } from '../test/topic.ts';
import { consumeRounds } from './platformatic/rounds.ts';
import type { RecordBatch } from './record-batches.ts';

const [offsetCommit, syncGroup] = [8, 14];
const [ok, coordinatorAway, illegalGeneration, notAuthorized] = [0, 15, 22, 30];

/** Where the error is in the answer to a commit of one partition; tags follow from version 8 on. */
function errorIn({ bytes, version }: Reply): number {
  return bytes.length - (version < 8 ? 2 : 5);
}

function refusedWith(reply: Reply, code: number): Buffer {
  reply.bytes.writeInt16BE(code, errorIn(reply));
  return reply.bytes;
}

function aLogger() {
  const warnings: { message: string; refusals?: number }[] = [];
  const warn = (about: object, message: string) => void warnings.push({ ...about, message });
  const silent = createLogger({ service: 'test', instance: 'test', level: 'silent' });
  return { warnings, logger: Object.assign(silent, { warn }) as Logger };
}

/** A topic and a group by one driver, and a network in front of its broker. */
async function behind(t: DriverTest, change: (reply: Reply) => Buffer | Promise<Buffer>) {
  const group = await aGroup(t, 2);
  const network = await openChangingNetwork(group.brokers[0]!, change);
  t.after(() => network.close());
  return { ...group, dial: network.dial };
}

const byPlatformatic = (t: TestContext) => Object.assign(t, { driver: 'platformatic' as const });

testEveryDriver('a member that may not commit says so, and joins again until it may', async (t) => {
  let refuses = true;
  const { append, consume, allCommitted, dial } = await behind(t, (reply) =>
    refuses && reply.apiKey === offsetCommit ? refusedWith(reply, notAuthorized) : reply.bytes,
  );
  const { logger, warnings } = aLogger();
  consume({ dial, logger });
  const ends = () => warnings.filter(({ message }) => message.endsWith('failed, will restart'));
  // The broker has each commit whose answer is changed: there must be another one.
  await eventually(async () => {
    await append(...numbered(1, 0));
    return ends().length >= 2;
  });
  refuses = false;
  await allCommitted();
});

test('what a broker cannot commit yet is read again, later each time, and with a warning', async (t) => {
  let refusals = 3;
  const { append, consume, allCommitted, dial } = await behind(byPlatformatic(t), (reply) =>
    reply.apiKey === offsetCommit && (refusals -= 1) >= 0
      ? refusedWith(reply, coordinatorAway)
      : reply.bytes,
  );
  const { logger, warnings } = aLogger();
  consume({ dial, logger });
  await eventually(async () => {
    await append(...numbered(1, 0));
    return refusals < 0;
  });
  await allCommitted();
  const message = 'a batch was not committed and is read again';
  const warned = warnings.map((each) => [each.message, each.refusals]);
  assert.deepEqual(
    warned,
    [1, 2, 3].map((nth) => [message, nth]),
  );
});

/** Batches that are held, by partition, until they are released; one that comes later is not. */
function holding() {
  const released = new Map<number, PromiseWithResolvers<void>>();
  const handled: number[] = [];
  const endOf = (partition: number) => {
    if (!released.has(partition)) released.set(partition, Promise.withResolvers());
    return released.get(partition)!;
  };
  const handle = async ({ partition }: RecordBatch) => {
    handled.push(partition);
    await endOf(partition).promise;
  };
  const release = (...partitions: number[]) => {
    for (const each of partitions) endOf(each).resolve();
  };
  return { handle, handled, release };
}

test('until a member knows what it was assigned, the group takes no commit of what it had before', async (t) => {
  const commits: number[] = [];
  const known = Promise.withResolvers<void>();
  let holds = false;
  const { append, consume, offsets, allCommitted, dial } = await behind(
    byPlatformatic(t),
    async (reply) => {
      if (reply.apiKey === offsetCommit) commits.push(reply.bytes.readInt16BE(errorIn(reply)));
      if (holds && reply.apiKey === syncGroup) await known.promise;
      return reply.bytes;
    },
  );
  await append(...numbered(3, 0), ...numbered(3, 1));
  const [first, second] = [holding(), holding()];
  consume({ dial, handle: first.handle });
  await eventually(async () => first.handled.length === 2);
  holds = true;
  consume({ handle: second.handle });
  const [lost, kept] = await eventually(async () => {
    const taken = second.handled[0];
    return taken !== undefined && [taken, 1 - taken];
  });
  first.release(lost);
  await eventually(async () => commits.length > 0);
  assert.deepEqual(commits, [illegalGeneration]);
  assert.equal((await offsets.committed()).get(lost), 0n);
  known.resolve();
  first.release(kept);
  second.release(lost, kept);
  await allCommitted();
  assert.ok(commits.includes(ok));
});

test('a partition that was taken away keeps no other one from being committed with it', async (t) => {
  const { append, consume, allCommitted } = await aGroup(byPlatformatic(t), 3);
  await append(...[0, 1, 2].flatMap((partition) => numbered(3, partition)));
  const [first, second] = [holding(), holding()];
  const assigned: (readonly number[])[] = [];
  const committed: number[] = [];
  consume({
    handle: first.handle,
    onAssigned: (partitions) => void assigned.push(partitions),
    onCommitted: async ({ partition }) => void committed.push(partition),
  });
  await eventually(async () => first.handled.length === 3);
  consume({ handle: second.handle });
  const kept = await eventually(
    async () => second.handled.length > 0 && assigned.length > 1 && assigned.at(-1),
  );
  first.release(0, 1, 2);
  await eventually(async () => committed.length >= kept.length);
  second.release(0, 1, 2);
  await allCommitted();
  assert.deepEqual(committed.toSorted(), kept.toSorted());
  assert.deepEqual(first.handled.toSorted(), [0, 1, 2]);
});

test('a member ends by the reason where a broker does not say where a partition begins', async () => {
  const ended = Promise.withResolvers<unknown>();
  const rounds = consumeRounds({
    membership: { logger: aLogger().logger },
    group: {
      fetcher: {
        leaders: async () => [1],
        fetch: async () => [{ outcome: 'gone', partition: 0 }],
        destroy: () => undefined,
      },
      leaders: async () => [1],
      positions: async () => new Map([[0, 7n]]),
      starts: async () => [],
    },
    hooks: {
      eachBatch: async () => undefined,
      skip: () => undefined,
      joined: () => undefined,
      stop: () => undefined,
    },
    fail: ended.resolve,
  });
  rounds.assign('member', [0]);
  assert.match(String(await ended.promise), /Kafka did not say where partition 0 begins/);
  rounds.stop();
});
