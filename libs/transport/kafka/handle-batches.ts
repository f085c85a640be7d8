import { backoffMs, inBatches, inBatchSpan, type Logger } from '@triplock/runtime';
import type { EachBatchHandler, EachBatchPayload } from 'kafkajs';
import { keepAlive, type Heartbeat } from './heartbeat.ts';
import { processBatchSpan } from './kafka-spans.ts';
import type { RecordBatch } from './log.ts';
import { receivedRecord } from './received-record.ts';

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
