import { setImmediate as endOfThisTurn, setTimeout as delay } from 'node:timers/promises';
import type { EncodedRecord } from '@triplock/contracts';
import {
  backoffMs,
  carriedTraceparent,
  inSpan,
  isTracing,
  type Logger,
  type SpanSpec,
} from '@triplock/runtime';
import { openInquiry } from './brokers.ts';
import {
  earliest,
  openAppendQueue,
  ProduceRefusedError,
  putUnderWay,
  watchDeadlines,
  type BatchUnderWay,
  type QueueLimits,
  type AppendQueue,
} from './append-queue.ts';
import { connectProducer, type IdempotentProducer } from './producer.ts';
import type { BrokerConnection, OutgoingHeaders, OutgoingRecord } from './driver.ts';

/**
 * Appends records to one topic by group commit: while one `sendBatch` is outstanding, records
 * gather for the next.
 */
export type GroupCommit = {
  /**
   * Resolves when every in-sync replica has the record (acks=all).
   * @throws ProduceRefusedError when the queue is full or the producer is closing.
   * @throws ProduceUnknownError after a rejected send or when `timeoutMs` is over.
   */
  append(record: EncodedRecord): Promise<void>;
  ping(): Promise<void>;
  /** Sends what waits, then disconnects. */
  close(): Promise<void>;
};

/** Where to append, and within which limits. */
export type GroupCommitOptions = BrokerConnection & {
  topic: string;
  limits?: Partial<AppendLimits>;
};

/**
 * Half of the 3 s in which a caller must have its answer, so that the claim can still be given up.
 * Nearly all of a record's CPU goes by batches, so gathering for some milliseconds more is cheaper,
 * and the answer comes as much later.
 * A batch stays under the brokers' 1 MiB (`max.message.bytes`) even when one partition gets it all.
 * What waits is bounded so that an outage costs refusals and no memory.
 */
const defaultLimits: AppendLimits = {
  timeoutMs: 1_500,
  gatherMs: 4,
  batchRecordsMax: 1_000,
  batchBytesMax: 512 * 1024,
  waitingRecordsMax: 10_000,
  waitingBytesMax: 64 * 1024 * 1024,
};

/** Opens a group commit. It connects by itself, also when no broker answers yet. */
export function openGroupCommit(options: GroupCommitOptions): GroupCommit {
  const appends = openAppends(options, { ...defaultLimits, ...options.limits });
  const toSend = sendRecordSpan(options.topic);
  return {
    ...appends,
    append: ({ key, value, headers }) =>
      inSpan({ ...toSend, parent: headers.traceparent }, () =>
        appends.append({ key, value, headers: carriedBy(headers) }),
      ),
  };
}

/** Appends to one topic in batches, over a connection that is made and remade by itself. */
export function openAppends(
  options: BrokerConnection & { topic: string },
  limits: AppendLimits,
): Pick<BatchAppender, 'append' | 'close'> & Pick<GroupCommit, 'ping'> {
  const connect = () => connectProducer({ ...options, sendLimitMs: limits.timeoutMs });
  const batches = appendInBatches({ connect, limits, logger: options.logger });
  const inquiry = openInquiry(options);
  return {
    append: batches.append,
    ping: async () => {
      await inquiry.ping(options.topic);
      if (!batches.isConnected()) throw new Error('no producer is connected');
    },
    close: async () => {
      await batches.close();
      await inquiry.close();
    },
  };
}

/**
 * The record carries the span in which it is sent, so that what is done with it follows from there.
 */
function carriedBy(headers: EncodedRecord['headers']): EncodedRecord['headers'] {
  if (!isTracing()) return headers;
  return { ...headers, traceparent: carriedTraceparent(headers.traceparent) };
}

/** Limits of appending; times in milliseconds. */
export type AppendLimits = QueueLimits & {
  /** How long one append may take; then it is refused (never sent) or unknown (sent). */
  timeoutMs: number;
  /** The least time from one batch to the next, in which messages gather; none of it when idle. */
  gatherMs: number;
};

/** Where batches go: a fresh producer after every failure. */
export type AppendOptions = {
  connect: () => Promise<IdempotentProducer>;
  limits: AppendLimits;
  logger: Logger;
};

/** Sends messages in batches, one batch at a time. */
export type BatchAppender = {
  append(message: OutgoingRecord): Promise<void>;
  /** Whether a producer is connected now. */
  isConnected(): boolean;
  close(): Promise<void>;
};

/**
 * Group commit: while one batch is outstanding, messages gather for the next. A producer is used
 * until its first failure; the messages of the failed batch are then unknown, those that wait go
 * with the next producer, and a late answer to the old one acknowledges nothing.
 *
 * Not by `inBatches`: here a batch is bounded by bytes too, each record has a deadline of its own,
 * and a record that was never sent (refused) is distinguished from one that was (unknown).
 *
 * A message is on every in-sync replica once its append has resolved. A crash before that leaves it
 * in the topic or not, and no caller has it as accepted; a retry appends it again.
 */
export function appendInBatches({ connect, limits, logger }: AppendOptions): BatchAppender {
  const queue = openAppendQueue(limits);
  const closing = new AbortController();
  let underWay: BatchUnderWay | undefined;
  let connected = false;

  const deadlines = watchDeadlines(limits.timeoutMs, (now) =>
    earliest(underWay?.giveUpLate(now), queue.refuseLate(now)),
  );
  const sendUntilFailure = async (producer: IdempotentProducer): Promise<void> => {
    let lastBatchAt = -Infinity;
    for (;;) {
      await queue.filled();
      await gather(lastBatchAt + limits.gatherMs);
      const records = queue.takeBatch();
      lastBatchAt = performance.now();
      if (records.length === 0 && closing.signal.aborted) return;
      if (records.length === 0) continue;
      underWay = putUnderWay(records);
      try {
        await producer.send(underWay.messages);
        underWay.acknowledge();
      } catch (error) {
        underWay.fail(error);
        throw error;
      }
    }
  };
  const run = async (): Promise<void> => {
    for (let failures = 0; !closing.signal.aborted || queue.size > 0; failures += 1) {
      try {
        const producer = await connect();
        connected = true;
        if (failures > 0) logger.info({ failures }, 'kafka producer is back');
        failures = 0;
        await sendUntilFailure(producer);
        await producer.close();
      } catch (error) {
        connected = false;
        if (failures % 10 === 0) logger.warn({ err: error, failures }, 'kafka producer lost');
        await rest(failures, closing.signal);
      }
    }
    deadlines.stop();
  };

  const ended = run();
  return {
    isConnected: () => connected,
    append: (message) => {
      if (closing.signal.aborted) return Promise.reject(new ProduceRefusedError('closing'));
      deadlines.expect();
      return enqueue(queue, { message, deadline: performance.now() + limits.timeoutMs });
    },
    close: () => {
      closing.abort();
      queue.close();
      return ended;
    },
  };
}

function enqueue(
  queue: AppendQueue,
  { message, deadline }: { message: OutgoingRecord; deadline: number },
) {
  return new Promise<void>((resolve, reject) => {
    queue.add({ message, bytes: bytesOf(message), deadline, resolve, reject });
  });
}

/** Waits until `until`, and for this turn of the event loop: what came together goes together. */
async function gather(until: number): Promise<void> {
  const ms = until - performance.now();
  await (ms >= 1 ? delay(ms) : endOfThisTurn());
}

async function rest(failures: number, closing: AbortSignal): Promise<void> {
  const ms = backoffMs(failures, { firstMs: 50, maxMs: 1_000 });
  // A close cuts short the rest under way only: records that wait get their other tries.
  const options = closing.aborted ? {} : { signal: closing };
  await delay(ms, undefined, options).catch(() => undefined);
}

// Framing of one record and its headers, generously.
const recordOverheadBytes = 128;

function bytesOf({ key, value, headers }: OutgoingRecord): number {
  let bytes = recordOverheadBytes + (key?.length ?? 0) + (value?.length ?? 0);
  for (const name in headers) bytes += name.length + 8 + headerBytes(headers[name]);
  return bytes;
}

function headerBytes(value: OutgoingHeaders[string]): number {
  if (Array.isArray(value)) return value.reduce((sum, each) => sum + (each?.length ?? 0) + 8, 0);
  return value?.length ?? 0;
}

/** One record from its caller's view: until the brokers have it. */
function sendRecordSpan(topic: string): SpanSpec {
  const attributes = {
    'messaging.system': 'kafka',
    'messaging.operation.type': 'send',
    'messaging.operation.name': 'append',
    'messaging.destination.name': topic,
  };
  return { name: `send ${topic}`, kind: 'producer', attributes };
}
