import { setTimeout as delay } from 'node:timers/promises';
import { withDeadline } from '@triplock/runtime';
import type { Consumer, EachBatchHandler } from 'kafkajs';
import { supervise } from '../supervise.ts';
import { openInquiry } from './admin.ts';
import { findGapBefore, findGroupGaps, type LogGap } from './log-gaps.ts';
import {
  type BatchHandler,
  handleBatches,
  type ReadFirst,
  type RecordBatch,
  type SkippedOffsets,
} from './record-batches.ts';
import { openKafkaClient, type BrokerConnection } from './client.ts';

/**
 * A consumer that commits a batch's offsets only after `handle` resolved. When `handle` rejects,
 * nothing is committed and the batch comes again after a backoff; the consumer restarts itself
 * after every error, a non-retriable one too.
 */
export type RecordConsumer = {
  ping(): Promise<void>;
  close(): Promise<void>;
};

/**
 * Consumes a topic from its beginning as one of a group. It starts by itself, also when no broker
 * answers yet, and starts again after every error until it is closed.
 */
export function runConsumer(options: MemberOptions): RecordConsumer {
  const inquiry = openInquiry(options);
  let member: GroupMember | undefined;

  const live = async (closing: Promise<never>): Promise<void> => {
    try {
      member = await startMember(options, closing);
      await Promise.race([member.ended, closing]);
    } finally {
      const leaving = member;
      member = undefined;
      options.onAssigned?.([]);
      await leaving?.leave();
    }
  };
  const lives = supervise({
    what: `consumer group ${options.groupId}`,
    live,
    logger: options.logger,
  });
  return {
    ping: async () => {
      if (member === undefined) throw new Error('not a member of the consumer group');
      await inquiry.ping(options.topic);
    },
    close: async () => {
      await lives.close();
      await inquiry.close();
    },
  };
}

/** What a member of a consumer group consumes, and how. */
export type MemberOptions = BrokerConnection & {
  groupId: string;
  topic: string;
  /** What it asks to be read first is fetched next, and then this batch again. */
  handle(batch: RecordBatch): Promise<ReadFirst | void>;
  /** Called after a batch's offset was committed. */
  onCommitted?(batch: RecordBatch): Promise<void>;
  /** Called before the group's offset passes what is no record; again when it failed. */
  onSkipped?(skipped: SkippedOffsets): Promise<void>;
  /**
   * Called when the group was joined, also again, with the partitions that are this member's now.
   */
  onAssigned?(partitions: readonly number[]): void;
  /**
   * Called with what the log lost of what the group had yet to read: before the group is joined,
   * where each member asks by itself, so that several may report one loss; and while a member
   * reads, before a batch that comes behind it is handled.
   */
  onLost?(gap: LogGap): void;
  /**
   * A partition that was read to its end is fetched from again so long after it, so that a few
   * large fetches bring what many small ones would; at once by default.
   */
  gatherMs?: number;
  /** A member that is silent for this long is dead, and its partitions move; 6 s by default. */
  sessionTimeoutMs?: number;
};

/** One membership, from joining the group to its end. */
type GroupMember = {
  /** Rejects when this member consumes no more; another is then needed. */
  ended: Promise<never>;
  /** Finishes and commits what is under way, then leaves the group. Bounded. */
  leave(): Promise<void>;
};

/**
 * The lowest session that brokers accept by default (`group.min.session.timeout.ms`), so that the
 * partitions of a killed worker move as soon as Kafka allows. A false alarm costs one rebalance and
 * some redeliveries. A quarter of it between heartbeats at most, so that three may be lost: a fetch
 * ends as soon as there is a record, and an idle one after that quarter, which a close or the end
 * of a pause may have to wait for.
 */
const defaultSessionMs = 6_000;
/** How long a rebalance waits for batches under way; a slower member is left out. */
const rebalanceMs = 20_000;
/** Partitions whose batches are under way at once. */
const partitionsConcurrently = 12;
const requestTimeoutMs = 5_000;
const joinLimitMs = 60_000;
const leaveLimitMs = 10_000;
const retry = { retries: 5, initialRetryTime: 100, maxRetryTime: 1_000 };
/** Longer than a rebalance and all tries of a request: whoever is silent so long is stuck. */
const standstillMs = 60_000;

/** Joins the group and consumes. Rejects when that fails or is called off; nothing is left then. */
async function startMember(
  options: MemberOptions,
  calledOff: Promise<never>,
): Promise<GroupMember> {
  const { groupId, topic, logger } = options;
  const hasLost = await reportLost(options);
  const sessionTimeout = options.sessionTimeoutMs ?? defaultSessionMs;
  // Sent between fetches, and only if it is over by then: so each idle fetch is followed by one.
  const heartbeatInterval = sessionTimeout / 8;
  const client = openKafkaClient(options, { requestTimeoutMs, retry });
  const consumer = client.kafka.consumer({
    groupId,
    sessionTimeout,
    heartbeatInterval,
    rebalanceTimeout: rebalanceMs,
    maxWaitTimeInMs: sessionTimeout / 4,
    allowAutoTopicCreation: false,
    // kafkajs would restart after some errors and stop for good after others. Here every crash ends
    // the member, and whoever started it starts another.
    retry: { ...retry, restartOnFailure: () => Promise.resolve(false) },
  });
  const batches = handleBatches({
    ...noticingLosses(options, consumer),
    heartbeatMs: heartbeatInterval,
    commitOffsets: (partitions) =>
      consumer.commitOffsets(partitions.map((at) => ({ topic, ...at }))),
  });
  const ended = endOf(consumer);
  consumer.on('consumer.end_batch_process', ({ payload }) => {
    const { partition, batchSize, firstOffset, lastOffset, highWatermark } = payload;
    const [from, next] = [BigInt(firstOffset ?? lastOffset), BigInt(lastOffset) + 1n];
    if (batchSize === 0) void batches.skip({ partition, from, next, end: BigInt(highWatermark) });
  });
  consumer.on('consumer.group_join', ({ payload }) => {
    batches.joined();
    const assigned = payload.memberAssignment[topic] ?? [];
    options.onAssigned?.(assigned);
    if (hasLost) void passLost(options, assigned, batches);
  });
  const join = async () => {
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      partitionsConsumedConcurrently: partitionsConcurrently,
      eachBatch: gathering(batches.eachBatch, options.gatherMs ?? 0),
    });
  };
  const limit = { ms: joinLimitMs, what: 'the group that is joined' };
  try {
    await withDeadline(Promise.race([join(), ended, calledOff]), limit);
  } catch (error) {
    batches.stop();
    client.destroy();
    throw error;
  }
  logger.info({ groupId, topic }, 'joined the consumer group');
  return {
    ended,
    leave: async () => {
      const leaving = { ms: leaveLimitMs, what: 'the group that is left' };
      await withDeadline(consumer.disconnect(), leaving).finally(() => {
        batches.stop();
        client.destroy();
      });
    },
  };
}

/**
 * Handles a batch and holds up the next fetch for as long as more is to gather. A batch with more
 * behind it holds up none; but a fetch waits for all batches of the one before it.
 */
function gathering(eachBatch: EachBatchHandler, gatherMs: number): EachBatchHandler {
  return async (payload) => {
    const soonest = performance.now() + gatherMs;
    await eachBatch(payload);
    const { batch } = payload;
    const isAtEnd = BigInt(batch.lastOffset()) + 1n >= BigInt(batch.highWatermark);
    const earlyMs = soonest - performance.now();
    if (isAtEnd && payload.isRunning() && earlyMs > 0) await delay(earlyMs);
  };
}

/**
 * The member's calls, with a look at the log where a batch begins elsewhere than the one before it
 * ended: kafkajs goes on from the log's start without a word when the offset that it asks for is
 * gone, as it is where batches fail for longer than records are kept.
 */
function noticingLosses(options: MemberOptions, consumer: Consumer): MemberOptions {
  const { onLost, handle, onCommitted, onSkipped } = options;
  if (onLost === undefined) return options;
  const positions = new Map<number, bigint>();
  let joinedAs: string | undefined;
  consumer.on('consumer.group_join', ({ payload: { memberId, memberAssignment } }) => {
    // What stays its own was nobody else's meanwhile. One that the group had given up has another
    // name now.
    const kept = memberId === joinedAs ? (memberAssignment[options.topic] ?? []) : [];
    for (const each of positions.keys()) if (!kept.includes(each)) positions.delete(each);
    joinedAs = memberId;
  });
  return {
    ...options,
    handle: async (batch) => {
      const { partition, records } = batch;
      const first = records[0]!.offset;
      const next = positions.get(partition) ?? first;
      const gap =
        next === first ? undefined : await findGapBefore(options, { partition, next, first });
      if (gap !== undefined) onLost(gap);
      positions.set(partition, first);
      return handle(batch);
    },
    onCommitted: async (batch) => {
      positions.set(batch.partition, batch.next);
      await onCommitted?.(batch);
    },
    onSkipped: async (skipped) => {
      positions.set(skipped.partition, skipped.next);
      await onSkipped?.(skipped);
    },
  };
}

/** A member that finds its offset gone would go on from the log's start without a word. */
async function reportLost(options: MemberOptions): Promise<boolean> {
  const { onLost } = options;
  if (onLost === undefined) return false;
  const lost = await findGroupGaps(options);
  for (const gap of lost) onLost(gap);
  return lost.length > 0;
}

/**
 * Commits the start of the log where the group has not passed what was dropped: else every member
 * that joins would report the same loss, until somebody writes to that partition. Nobody but this
 * member commits what it was assigned. A crash before it leaves the loss to be reported again; an
 * end that went back is left alone, for the topic may be another one.
 */
async function passLost(
  options: MemberOptions,
  assigned: readonly number[],
  batches: BatchHandler,
): Promise<void> {
  try {
    for (const { partition, to, why } of await findGroupGaps(options)) {
      if (why !== 'dropped' || !assigned.includes(partition)) continue;
      await batches.beginAt({ partition, from: to, next: to, end: to });
    }
  } catch (error) {
    options.logger.warn({ err: error }, 'what was lost is not passed, and is reported again');
  }
}

/**
 * Rejects when kafkajs reports a crash, or when nothing happens any more although it reports none.
 */
function endOf(consumer: Consumer): Promise<never> {
  const ended = new Promise<never>((_resolve, reject) => {
    const standstill = setTimeout(
      () => reject(new Error(`the consumer made no progress for ${standstillMs} ms`)),
      standstillMs,
    );
    consumer.on('consumer.fetch', () => void standstill.refresh());
    consumer.on('consumer.heartbeat', () => void standstill.refresh());
    consumer.on('consumer.disconnect', () => clearTimeout(standstill));
    consumer.on('consumer.crash', (event) => {
      clearTimeout(standstill);
      reject(event.payload.error);
    });
  });
  // It may end while nobody listens: during a close the end is no news.
  ended.catch(() => undefined);
  return ended;
}
