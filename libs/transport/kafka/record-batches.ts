import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs, inBatches, inBatchSpan, type BatchSpanSpec } from '@triplock/runtime';
import type {
  BrokerConnection,
  BrokerRefusal,
  CommitOffsets,
  FetchedBatch,
  MemberHooks,
  PartitionOffset,
  ReceivedRecord,
  SkippedOffsets,
} from './driver.ts';
import { findGapBefore, type LogGap } from './offsets.ts';

/** Records of one partition in order. */
export type RecordBatch = {
  partition: number;
  records: readonly ReceivedRecord[];
  /** The offset that was asked for: up to these there is no other record. */
  from: bigint;
  /** The offset after these, and after what follows them in the log and is no record. */
  next: bigint;
  /** The offset after all that the partition held when these were fetched. */
  end: bigint;
  /**
   * Keeps the session alive; call it between long steps. Throws when the partition was taken away.
   */
  heartbeat(): Promise<void>;
  /**
   * True once the partition belongs to somebody else: finish nothing more. A close does not make it
   * true, because it waits for the batch in hand.
   */
  isStale(): boolean;
};

/** Nothing was done with a batch: what is before it, from this offset on, is to be read first. */
export type ReadFirst = { readFrom: bigint };

/** What happens to a batch, and after its offset was committed. */
export type BatchHandling = BrokerConnection & {
  topic: string;
  groupId: string;
  handle(batch: RecordBatch): Promise<ReadFirst | void>;
  onCommitted?(batch: RecordBatch): Promise<void>;
  onSkipped?(skipped: SkippedOffsets): Promise<void>;
  onLost?(gap: LogGap): void;
  commitOffsets: CommitOffsets;
  /** What an error says of the membership. */
  judge(error: unknown): BrokerRefusal | undefined;
  heartbeatMs: number;
};

/** Handles batches until stopped; then it takes no other, and what failed is not tried again. */
export type BatchHandler = MemberHooks & {
  /** As `skip`, where nothing, which would be further on, has come since the group was joined. */
  beginAt(skipped: SkippedOffsets): Promise<void>;
};

/** One request is small also for the largest topic that anybody would make. */
const partitionsMax = 1_000;
const retryPauses = { firstMs: 100, maxMs: 5_000 };

/**
 * Handles a batch, then commits its end. What `handle` rejects is not committed and comes again
 * after a pause of its partition; the membership and the other partitions go on meanwhile.
 *
 * The end is that of what was fetched and not of its last record: were a transaction's marker left
 * uncommitted at the end of a partition, the group would seem to be behind until somebody writes
 * there again.
 */
export function handleBatches(handling: BatchHandling): BatchHandler {
  const { handle, onCommitted, logger } = handling;
  const pauses = new Set<NodeJS.Timeout>();
  const failures = new Map<number, number>();
  let stopped = false;
  const losses = noticeLosses(handling);
  const commits = openCommits(handling, losses);

  const work = async (fetched: FetchedBatch, heartbeat: Heartbeat): Promise<void> => {
    const batch = recordBatch(fetched, heartbeat);
    const { partition, next } = batch;
    const before = await inBatchSpan(processBatchSpan(handling, batch), async () => {
      await losses.look(batch);
      const before = await handle(batch);
      if (!before) await commits.commit({ partition, offset: next, isStale: fetched.isStale });
      return before;
    });
    failures.delete(partition);
    fetched.goOnFrom(before ? before.readFrom : next);
    if (before) return;
    losses.passed(batch);
    await onCommitted?.(batch);
  };

  const pause = (fetched: FetchedBatch, error: unknown) => {
    const { partition } = fetched;
    const before = failures.get(partition) ?? 0;
    failures.set(partition, before + 1);
    const pauseMs = backoffMs(before, retryPauses);
    const details = { err: error, partition, pauseMs, failures: before + 1 };
    logger.warn(details, 'batch failed, will retry');
    const resume = fetched.pause();
    const timer = setTimeout(() => {
      pauses.delete(timer);
      resume();
    }, pauseMs);
    pauses.add(timer);
  };

  return {
    eachBatch: async (fetched) => {
      if (stopped) return;
      commits.received(fetched);
      const heartbeat = keepAlive(fetched, handling);
      try {
        await work(fetched, heartbeat);
      } catch (error) {
        // The member joins again by the library's own errors; whatever else is wrong concerns this
        // batch only.
        const cause = heartbeat.lost() ?? error;
        if (handling.judge(cause) !== undefined) throw cause;
        pause(fetched, cause);
      } finally {
        heartbeat.stop();
      }
    },
    skip: (skipped) => void commits.skip(skipped),
    beginAt: commits.beginAt,
    joined: (memberId, assigned) => {
      losses.joined(memberId, assigned);
      commits.joined();
    },
    stop: () => {
      stopped = true;
      commits.joined();
      for (const timer of pauses) clearTimeout(timer);
    },
  };
}

/** Commits the offsets of one member. */
function openCommits({ commitOffsets, onSkipped, logger }: BatchHandling, losses: Losses) {
  // By partition, what came last. Offsets that are still being skipped when something else comes
  // are left to its commit, which is further on, or, after a join, to the next fetch.
  const current = new Map<number, object>();

  // Partitions share a request, which fails for all of them, or for those alone that were taken
  // away meanwhile. The last offset of a partition is the furthest.
  const share = inBatches(
    async (wanted: readonly (PartitionOffset & { isPast?: () => boolean })[]) => {
      const offsets = wanted.filter(({ isPast }) => isPast?.() !== true);
      const furthest = new Map(offsets.map((each) => [each.partition, each]));
      if (furthest.size === 0) return wanted.map(() => undefined);
      const lost = await commitOffsets([...furthest.values()]);
      return wanted.map((each) => (offsets.includes(each) ? lost.get(each.partition) : undefined));
    },
    { itemsMax: partitionsMax },
  );
  const commit = async (wanted: Parameters<typeof share>[0]): Promise<void> => {
    const lost = await share(wanted);
    if (lost) throw lost;
  };

  return {
    commit,
    received: (fetched: FetchedBatch) => void current.set(fetched.partition, fetched),
    skip,
    beginAt: async (at: SkippedOffsets) => (current.has(at.partition) ? undefined : skip(at)),
    joined: () => current.clear(),
  };

  async function skip(skipped: SkippedOffsets): Promise<void> {
    const { partition, next } = skipped;
    current.set(partition, skipped);
    const isPast = () => current.get(partition) !== skipped;
    for (let failed = 0; !isPast(); failed += 1) {
      try {
        losses.passed(skipped);
        await onSkipped?.(skipped);
        return await commit({ partition, offset: next, isPast });
      } catch (error) {
        logger.warn({ err: error, partition }, 'skipped offsets not committed, will retry');
      }
      await delay(backoffMs(failed, retryPauses), undefined, { ref: false });
    }
  }
}

type Losses = ReturnType<typeof noticeLosses>;

/**
 * Looks at the log where a batch begins elsewhere than the one before it ended: a library goes on
 * from the log's start without a word when the offset that it asks for is gone, as it is where
 * batches fail for longer than records are kept.
 */
function noticeLosses({ onLost, ...connection }: BatchHandling) {
  const positions = new Map<number, bigint>();
  let joinedAs: string | undefined;
  return {
    joined: (memberId: string, assigned: readonly number[]) => {
      // What stays its own was nobody else's meanwhile. One that the group had given up has another
      // name now.
      const kept = memberId === joinedAs ? assigned : [];
      for (const each of positions.keys()) if (!kept.includes(each)) positions.delete(each);
      joinedAs = memberId;
    },
    /** @throws when Kafka does not say what the log holds; the batch is to come again. */
    look: async ({ partition, records }: RecordBatch) => {
      const first = records[0]!.offset;
      const next = positions.get(partition) ?? first;
      const isElsewhere = onLost !== undefined && next !== first;
      const gap = isElsewhere && (await findGapBefore(connection, { partition, next, first }));
      if (gap) onLost?.(gap);
      positions.set(partition, first);
    },
    passed: ({ partition, next }: Pick<SkippedOffsets, 'partition' | 'next'>) =>
      void positions.set(partition, next),
  };
}

function recordBatch(fetched: FetchedBatch, heartbeat: Heartbeat): RecordBatch {
  const { partition, records, from, next, end } = fetched;
  return {
    partition,
    records,
    from,
    next,
    end,
    heartbeat: () => heartbeat.beat(),
    isStale: () => heartbeat.lost() !== undefined || fetched.isStale(),
  };
}

/** The membership while one batch is at work. */
type Heartbeat = {
  /** Sends a heartbeat if one is due. @throws when the partition was taken away. */
  beat(): Promise<void>;
  /** Why the partition was taken away, once it was. */
  lost(): Error | undefined;
  stop(): void;
};

/**
 * Keeps a member alive while its batch is at work, also when the handler waits long for a database:
 * kafkajs itself sends heartbeats only between batches. While the group only asks everybody to join
 * again, it waits.
 */
function keepAlive(
  fetched: FetchedBatch,
  { heartbeatMs, judge, logger }: BatchHandling,
): Heartbeat {
  let lost: Error | undefined;

  const attempt = async () => {
    try {
      await fetched.heartbeat();
    } catch (error) {
      if (error instanceof Error && judge(error) === 'taken') lost = error;
      else logger.debug({ err: error }, 'a heartbeat failed');
    }
  };
  const timer = setInterval(() => void attempt(), heartbeatMs);
  return {
    beat: async () => {
      await attempt();
      if (lost) throw lost;
    },
    lost: () => lost,
    stop: () => clearInterval(timer),
  };
}

/** A batch of one partition, from its arrival to the commit of its offset. */
function processBatchSpan(
  { topic, groupId }: { topic: string; groupId: string },
  { partition, records }: RecordBatch,
): BatchSpanSpec {
  const attributes = {
    'messaging.system': 'kafka',
    'messaging.operation.type': 'process',
    'messaging.operation.name': 'process batch',
    'messaging.destination.name': topic,
    'messaging.destination.partition.id': String(partition),
    'messaging.consumer.group.name': groupId,
    'messaging.batch.message_count': records.length,
  };
  const name = `process batch ${topic}`;
  return { name, kind: 'consumer', attributes, of: () => records.flatMap(traceparentOf) };
}

function traceparentOf({ headers: { traceparent } }: ReceivedRecord): string[] {
  return Buffer.isBuffer(traceparent) ? [traceparent.toString()] : [];
}
