import {
  backoffMs,
  inBatches,
  inBatchSpan,
  type BatchSpanSpec,
  type Logger,
} from '@triplock/runtime';
import type { EachBatchHandler, EachBatchPayload, KafkaMessage } from 'kafkajs';

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
  /** The offset after the partition's last record, as it was when these were fetched. */
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

/** What happens to a batch, and after its offset was committed. */
export type BatchHandling = {
  topic: string;
  groupId: string;
  handle(batch: RecordBatch): Promise<void>;
  onCommitted?(batch: RecordBatch): Promise<void>;
  heartbeatMs: number;
  logger: Logger;
};

/** Handles batches until stopped; then it takes no other, and what failed is not tried again. */
export type BatchHandler = { eachBatch: EachBatchHandler; stop(): void };

/** One request is small also for the largest topic that anybody would make. */
const partitionsMax = 1_000;

/**
 * Handles a batch, then commits its end. What `handle` rejects is not committed and comes again
 * after a pause of its partition; the membership and the other partitions go on meanwhile.
 */
export function handleBatches(handling: BatchHandling): BatchHandler {
  const { handle, onCommitted, logger } = handling;
  const pauses = new Set<NodeJS.Timeout>();
  const failures = new Map<number, number>();
  let stopped = false;
  let latest: EachBatchPayload;

  // Partitions share a request; each has one offset in it at most, and all of them fail together.
  const commit = inBatches(
    async (partitions: readonly { partition: number; offset: string }[]) => {
      const { topic } = latest.batch;
      // Not consumer.commitOffsets: of a consumer that stops, it resolves and commits nothing.
      await latest.commitOffsetsIfNecessary({ topics: [{ topic, partitions: [...partitions] }] });
      return partitions.map(() => undefined);
    },
    { itemsMax: partitionsMax },
  );

  const work = async (payload: EachBatchPayload, heartbeat: Heartbeat): Promise<void> => {
    const batch = recordBatch(payload, heartbeat);
    const last = batch.records.at(-1)!;
    await inBatchSpan(processBatchSpan(handling, batch), async () => {
      await handle(batch);
      await commit({ partition: batch.partition, offset: `${last.offset + 1n}` });
    });
    payload.resolveOffset(`${last.offset}`);
    failures.delete(batch.partition);
    await onCommitted?.(batch);
  };

  const pause = (payload: EachBatchPayload, error: unknown) => {
    const { partition } = payload.batch;
    const before = failures.get(partition) ?? 0;
    failures.set(partition, before + 1);
    const pauseMs = backoffMs(before, { firstMs: 100, maxMs: 5_000 });
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
      latest = payload;
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
    stop: () => {
      stopped = true;
      for (const timer of pauses) clearTimeout(timer);
    },
  };
}

function recordBatch(payload: EachBatchPayload, heartbeat: Heartbeat): RecordBatch {
  const { topic, partition, messages, highWatermark } = payload.batch;
  return {
    partition,
    records: messages.map((message) => receivedRecord({ topic, partition }, message)),
    end: BigInt(highWatermark),
    heartbeat: () => heartbeat.beat(),
    isStale: () => heartbeat.lost() !== undefined || payload.isStale(),
  };
}

/**
 * By name, because handlers that reach Kafka by themselves (dead letters) fail with errors of ours.
 */
function isKafkaError(error: unknown): error is Error {
  return error instanceof Error && error.name.startsWith('KafkaJS');
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
