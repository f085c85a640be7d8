import { setTimeout as delay } from 'node:timers/promises';
import {
  backoffMs,
  inBatches,
  inBatchSpan,
  type BatchSpanSpec,
  type Logger,
} from '@triplock/runtime';
import type { EachBatchHandler, EachBatchPayload, KafkaMessage } from 'kafkajs';
import { isKafkaError } from './client.ts';

/** A record as it came from the topic, bytes untouched. */
export type ReceivedRecord = {
  topic: string;
  partition: number;
  offset: bigint;
  key: Buffer | null;
  value: Buffer | null;
  headers: Readonly<Record<string, Buffer | readonly Buffer[] | undefined>>;
  timestamp: string;
};

/** Records of one partition in order. */
export type RecordBatch = {
  partition: number;
  records: readonly ReceivedRecord[];
  /** The offset that was asked for: up to these there is no other record. Untyped in kafkajs. */
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

/**
 * Offsets of one partition, from `from` to before `next`, that hold no record: the marker (control
 * record) that ends a transaction, and what an aborted one had written.
 */
export type SkippedOffsets = { partition: number; from: bigint; next: bigint; end: bigint };

/** Nothing was done with a batch: what is before it, from this offset on, is to be read first. */
export type ReadFirst = { readFrom: bigint };

/** What happens to a batch, and after its offset was committed. */
export type BatchHandling = {
  topic: string;
  groupId: string;
  handle(batch: RecordBatch): Promise<ReadFirst | void>;
  onCommitted?(batch: RecordBatch): Promise<void>;
  onSkipped?(skipped: SkippedOffsets): Promise<void>;
  /** Commits while no batch has come yet. */
  commitOffsets(partitions: readonly PartitionOffset[]): Promise<void>;
  heartbeatMs: number;
  logger: Logger;
};

type PartitionOffset = { partition: number; offset: string };

/** Handles batches until stopped; then it takes no other, and what failed is not tried again. */
export type BatchHandler = {
  eachBatch: EachBatchHandler;
  /** Commits past what holds no record, which kafkajs shows to no handler. */
  skip(skipped: SkippedOffsets): Promise<void>;
  /** The same where nothing, which would be further on, has come since the group was joined. */
  beginAt(skipped: SkippedOffsets): Promise<void>;
  /** The group was joined, also again: what was not committed is fetched once more. */
  joined(): void;
  stop(): void;
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
  const commits = openCommits(handling);

  const work = async (payload: EachBatchPayload, heartbeat: Heartbeat): Promise<void> => {
    const batch = recordBatch(payload, heartbeat);
    const { partition, next } = batch;
    const before = await inBatchSpan(processBatchSpan(handling, batch), async () => {
      const before = await handle(batch);
      if (!before) await commits.commit({ partition, offset: `${next}` });
      return before;
    });
    failures.delete(partition);
    payload.resolveOffset(`${before ? before.readFrom - 1n : batch.records.at(-1)!.offset}`);
    if (!before) await onCommitted?.(batch);
  };

  const pause = (payload: EachBatchPayload, error: unknown) => {
    const { partition } = payload.batch;
    const before = failures.get(partition) ?? 0;
    failures.set(partition, before + 1);
    const pauseMs = backoffMs(before, retryPauses);
    logger.warn(
      { err: error, partition, pauseMs, failures: before + 1 },
      'batch failed, will retry',
    );
    const resume = payload.pause();
    const timer = setTimeout(() => {
      pauses.delete(timer);
      resume();
    }, pauseMs);
    pauses.add(timer);
  };

  return {
    eachBatch: async (payload) => {
      if (stopped) return;
      commits.received(payload);
      const heartbeat = keepAlive(payload.heartbeat, { intervalMs: handling.heartbeatMs, logger });
      try {
        await work(payload, heartbeat);
      } catch (error) {
        // kafkajs joins again by its own errors; whatever else is wrong concerns this batch only.
        const cause = heartbeat.lost() ?? error;
        if (isKafkaError(cause)) throw cause;
        pause(payload, cause);
      } finally {
        heartbeat.stop();
      }
    },
    skip: commits.skip,
    beginAt: commits.beginAt,
    joined: commits.joined,
    stop: () => {
      stopped = true;
      commits.joined();
      for (const timer of pauses) clearTimeout(timer);
    },
  };
}

/** Commits the offsets of one member. */
function openCommits({ topic, commitOffsets, onSkipped, logger }: BatchHandling) {
  let latest: EachBatchPayload | undefined;
  // By partition, what came last. Offsets that are still being skipped when something else comes
  // are left to its commit, which is further on, or, after a join, to the next fetch.
  const current = new Map<number, object>();

  // Partitions share a request, and all of them fail together. The last offset of a partition is
  // the furthest.
  const commit = inBatches(
    async (wanted: readonly (PartitionOffset & { isPast?: () => boolean })[]) => {
      const offsets = wanted.filter(({ isPast }) => isPast?.() !== true);
      const furthest = new Map(
        offsets.map(({ partition, offset }) => [partition, { partition, offset }]),
      );
      const partitions = [...furthest.values()];
      // Not consumer.commitOffsets: of a consumer that stops, it resolves and commits nothing.
      if (latest === undefined) await commitOffsets(partitions);
      else if (partitions.length > 0)
        await latest.commitOffsetsIfNecessary({ topics: [{ topic, partitions }] });
      return wanted.map(() => undefined);
    },
    { itemsMax: partitionsMax },
  );

  return {
    commit,
    received: (payload: EachBatchPayload) => {
      latest = payload;
      current.set(payload.batch.partition, payload);
    },
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
        await onSkipped?.(skipped);
        return await commit({ partition, offset: `${next}`, isPast });
      } catch (error) {
        logger.warn({ err: error, partition }, 'skipped offsets not committed, will retry');
      }
      await delay(backoffMs(failed, retryPauses), undefined, { ref: false });
    }
  }
}

function recordBatch(payload: EachBatchPayload, heartbeat: Heartbeat): RecordBatch {
  const { topic, partition, messages, highWatermark } = payload.batch;
  return {
    partition,
    records: messages.map((message) => receivedRecord({ topic, partition }, message)),
    from: BigInt((payload.batch as unknown as { fetchedOffset: string }).fetchedOffset),
    next: BigInt(payload.batch.lastOffset()) + 1n,
    end: BigInt(highWatermark),
    heartbeat: () => heartbeat.beat(),
    isStale: () => heartbeat.lost() !== undefined || payload.isStale(),
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

/** The group went on without this member. While it only asks everybody to join again, it waits. */
const takenAway = ['UNKNOWN_MEMBER_ID', 'ILLEGAL_GENERATION', 'FENCED_INSTANCE_ID'];

/**
 * Keeps a member alive while its batch is at work, also when the handler waits long for a database:
 * kafkajs itself sends heartbeats only between batches.
 */
function keepAlive(
  sendHeartbeat: () => Promise<void>,
  { intervalMs, logger }: { intervalMs: number; logger: Logger },
): Heartbeat {
  let lost: Error | undefined;

  const attempt = async () => {
    try {
      await sendHeartbeat();
    } catch (error) {
      if (error instanceof Error && takenAway.includes((error as { type?: string }).type ?? '')) {
        lost = error;
      } else logger.debug({ err: error }, 'a heartbeat failed');
    }
  };
  const timer = setInterval(() => void attempt(), intervalMs);
  return {
    beat: async () => {
      await attempt();
      if (lost) throw lost;
    },
    lost: () => lost,
    stop: () => clearInterval(timer),
  };
}

/** A record with where it came from, its bytes as they came. */
export function receivedRecord(
  source: { topic: string; partition: number },
  message: KafkaMessage,
): ReceivedRecord {
  return {
    topic: source.topic,
    partition: source.partition,
    offset: BigInt(message.offset),
    key: message.key,
    value: message.value,
    // kafkajs gives bytes for what it read, one value or a list; strings only go the other way.
    headers: (message.headers ?? {}) as ReceivedRecord['headers'],
    timestamp: message.timestamp,
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
