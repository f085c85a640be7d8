import { supervise } from '../supervise.ts';
import { driverOf, openInquiry } from './brokers.ts';
import type { AttachHooks, BrokerConnection, GroupMember, SkippedOffsets } from './driver.ts';
import { findGroupGaps, type LogGap } from './offsets.ts';
import {
  type BatchHandler,
  handleBatches,
  type ReadFirst,
  type RecordBatch,
} from './record-batches.ts';

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
   * Called each time the group was joined, also again: because members came or went, or because it
   * had given this one up.
   */
  onJoined?(): void;
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

/**
 * The lowest session that brokers accept by default (`group.min.session.timeout.ms`), so that the
 * partitions of a killed worker move as soon as Kafka allows. A false alarm costs one rebalance and
 * some redeliveries. A quarter of it between heartbeats at most, so that three may be lost.
 */
const defaultSessionMs = 6_000;

/** Joins the group and consumes. Rejects when that fails or is called off; nothing is left then. */
async function startMember(
  options: MemberOptions,
  calledOff: Promise<never>,
): Promise<GroupMember> {
  const { groupId, topic, logger } = options;
  const hasLost = await reportLost(options);
  const driver = await driverOf(options);
  const sessionTimeoutMs = options.sessionTimeoutMs ?? defaultSessionMs;
  const heartbeatMs = sessionTimeoutMs / 8;
  const { judge } = driver;
  const attach: AttachHooks = (commitOffsets) => {
    const batches = handleBatches({ ...options, heartbeatMs, commitOffsets, judge });
    const joined = (memberId: string, assigned: readonly number[]) => {
      batches.joined(memberId, assigned);
      options.onJoined?.();
      options.onAssigned?.(assigned);
      if (hasLost) void passLost(options, assigned, batches);
    };
    return { ...batches, joined };
  };
  const membership = { ...options, sessionTimeoutMs, heartbeatMs };
  const member = await driver.startMember(membership, attach, calledOff);
  logger.info({ groupId, topic }, 'joined the consumer group');
  return member;
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
