import { setTimeout as delay } from 'node:timers/promises';
import { withDeadline } from '@triplock/runtime';
import {
  Consumer,
  kGetApi,
  ListOffsetTimestamps,
  type API,
  type ClusterMetadata,
} from '@platformatic/kafka';
import type { AttachHooks, GroupMember, Membership, PartitionOffset } from '../driver.ts';
import { clientOptions, destroyClient, prepare, TakenAwayError } from './client.ts';
import { openFetcher } from './fetches.ts';
import { consumeRounds, type Rounds } from './rounds.ts';

/** How long a rebalance waits for members that have yet to join. */
const rebalanceMs = 20_000;
const joinLimitMs = 60_000;
const leaveLimitMs = 10_000;
const limits = { requestTimeoutMs: 5_000, retries: 5, retryDelayMs: 200 };
/** Longer than a rebalance and all tries of a request: whoever is silent so long is stuck. */
const standstillMs = 60_000;

/**
 * The name by which kafkajs calls its assignment, whose form is that of all clients: members by
 * both can be in one group, and services can be moved from one driver to the other one by one.
 */
const protocols = [{ name: 'RoundRobinAssigner', version: 0 }];

/**
 * Joins the group and consumes. Rejects when that fails or is called off; nothing is left then.
 *
 * The library keeps the membership: it sends heartbeats by a timer, whatever a batch does, and
 * joins again by itself when the group asks for it. What is fetched, when it is handled and what is
 * committed is decided here, because its stream of messages hides the offsets that hold no record,
 * and its commit, refused as one of a generation that is over, joins again and commits the same
 * offset under the next one.
 */
export async function startMember(
  membership: Membership,
  attach: AttachHooks,
  calledOff: Promise<never>,
): Promise<GroupMember> {
  const end = Promise.withResolvers<never>();
  // It may end while nobody listens: during a close the end is no news.
  end.promise.catch(() => undefined);
  const group = openGroup(membership, () => rounds.settled());
  const { consumer, fetcher } = group;
  let joined: Joined | undefined;
  const commits = {
    commit: group.commit,
    joinedAs: () => joined,
    isOwned: (partition: number) => rounds.isOwned(partition),
  };
  const hooks = attach((offsets) => commitOwned(offsets, commits));
  const fail = (error: unknown) => end.reject(error);
  const rounds: Rounds = consumeRounds({ membership, group, hooks, fail });
  const standstill = setTimeout(
    () => fail(new Error(`the consumer made no progress for ${standstillMs} ms`)),
    standstillMs,
  );
  consumer.on('consumer:heartbeat:end', () => void standstill.refresh());
  // Joining again failed: the library sends no more heartbeats.
  consumer.on('error', fail);
  consumer.on('consumer:group:join', (group) => {
    const { memberId, generationId = consumer.generationId, assignments = [] } = group;
    joined = { memberId, generationId };
    const assigned = assignments.find(({ topic }) => topic === membership.topic)?.partitions ?? [];
    hooks.joined(memberId, assigned);
    rounds.assign(memberId, assigned);
  });
  const discard = () => {
    clearTimeout(standstill);
    hooks.stop();
    rounds.stop();
    fetcher.destroy();
    destroyClient(consumer, membership);
  };
  const limit = { ms: joinLimitMs, what: 'the group that is joined' };
  try {
    await withDeadline(Promise.race([group.join(), end.promise, calledOff]), limit);
  } catch (error) {
    discard();
    throw error;
  }
  return {
    ended: end.promise,
    leave: async () => {
      const leave = async () => {
        await rounds.finish();
        await consumer.close();
      };
      const leaving = { ms: leaveLimitMs, what: 'the group that is left' };
      await withDeadline(leave(), leaving).finally(discard);
    },
  };
}

function openGroup(membership: Membership, settled: () => Promise<unknown>) {
  const { groupId, topic, sessionTimeoutMs, heartbeatMs } = membership;
  let partitionsAtJoin: number | undefined;
  /**
   * Called before each join. Batches under way get some time to end, so that whoever has their
   * partitions next need not do them again; no heartbeat is sent meanwhile.
   */
  const beforeJoin = async (metadata: ClusterMetadata) => {
    partitionsAtJoin = metadata.topics.get(topic)?.partitionsCount;
    await Promise.race([settled(), delay(sessionTimeoutMs / 3, undefined, { ref: false })]);
    return Buffer.alloc(0);
  };
  const consumer = new Consumer({
    ...clientOptions(membership, limits),
    groupId,
    sessionTimeout: sessionTimeoutMs,
    heartbeatInterval: heartbeatMs,
    rebalanceTimeout: rebalanceMs,
    protocols,
    protocolsMetadata: (_protocols, _topics, metadata) => beforeJoin(metadata),
    autocommit: false,
  });
  prepare(consumer.connections, membership);
  consumer.topics.track(topic);
  // A fetch ends as soon as there is a record, and an idle one after this, which the end of a pause
  // may have to wait for.
  const maxWaitMs = sessionTimeoutMs / 4;
  const fetcher = openFetcher(consumer, { ...membership, limits, maxWaitMs });
  return {
    consumer,
    fetcher,
    join: () => consumer.joinGroup({}),
    /** The broker that leads each partition. @throws when the topic has grown since the join. */
    leaders: async () => {
      const leaders = await fetcher.leaders();
      if (partitionsAtJoin !== undefined && leaders.length > partitionsAtJoin) {
        throw new Error(`topic ${topic} has ${leaders.length} partitions by now: joining again`);
      }
      return leaders;
    },
    /** Where to begin in each partition: what the group committed, or the log's start. */
    positions: async (partitions: number[]) => {
      const committed = await consumer.listCommittedOffsets({ topics: [{ topic, partitions }] });
      const starts = await logStarts(consumer, topic);
      return new Map(
        partitions.map((partition) => {
          const offset = committed.get(topic)?.[partition] ?? -1n;
          return [partition, offset < 0n ? starts[partition] : offset];
        }),
      );
    },
    starts: () => logStarts(consumer, topic),
    commit: (offsets: readonly PartitionOffset[], joined: Joined) =>
      commit(consumer, { topic, offsets, ...joined }),
  };
}

async function logStarts(consumer: Consumer, topic: string): Promise<bigint[]> {
  const timestamp = ListOffsetTimestamps.EARLIEST;
  return (await consumer.listOffsets({ topics: [topic], timestamp })).get(topic) ?? [];
}

/** As whom, and in which generation of the group, the partitions were assigned. */
type Joined = { memberId: string; generationId: number };

type Commits = {
  commit: (offsets: readonly PartitionOffset[], joined: Joined) => Promise<void>;
  joinedAs: () => Joined | undefined;
  isOwned: (partition: number) => boolean;
};

/**
 * Commits what is this member's, under the generation that made it so. The library knows the next
 * generation from the answer to its join on, and what that assigns only some round trips later:
 * under it, the broker would take the offset of a partition that another member reads by then.
 */
async function commitOwned(
  offsets: readonly PartitionOffset[],
  { commit, joinedAs, isOwned }: Commits,
): Promise<ReadonlyMap<number, Error>> {
  const joined = joinedAs();
  const { lost = [], own = [] } = Object.groupBy(offsets, ({ partition, isStale }) =>
    (isStale?.() ?? !isOwned(partition)) ? 'lost' : 'own',
  );
  if (joined === undefined) throw new TakenAwayError('no member of the group');
  if (own.length > 0) await commit(own, joined);
  return new Map(
    lost.map(({ partition }) => [
      partition,
      new TakenAwayError(`partition ${partition} is another member's by now`),
    ]),
  );
}

type Committed = { partitionIndex: number; committedOffset: bigint; committedLeaderEpoch: number };
type CommittedTopic = { name: string; partitions: Committed[] };
type OffsetCommit = API<
  [group: string, generation: number, member: string, instance: null, CommittedTopic[]],
  unknown
>;

type Commit = Joined & { topic: string; offsets: readonly PartitionOffset[] };

/** Commits once, under this generation or not at all. */
async function commit(
  consumer: Consumer,
  { topic, offsets, memberId, generationId }: Commit,
): Promise<void> {
  const { groupId } = consumer;
  const coordinator = await consumer.findGroupCoordinator();
  const { brokers } = await consumer.metadata({ topics: [topic] });
  const connection = await consumer.connections.get(brokers.get(coordinator)!);
  const api = await new Promise<OffsetCommit>((resolve, reject) => {
    consumer[kGetApi]('OffsetCommit', (error, found) => {
      if (error || !found) reject(error ?? new Error('Kafka takes no commits'));
      else resolve(found);
    });
  });
  const partitions = offsets.map(({ partition, offset }) => {
    const epoch = { committedLeaderEpoch: -1, committedMetadata: null };
    return { partitionIndex: partition, committedOffset: offset, ...epoch };
  });
  await api.async(connection, groupId, generationId, memberId, null, [{ name: topic, partitions }]);
}
