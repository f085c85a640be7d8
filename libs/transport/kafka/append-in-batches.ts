import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import { backoffMs, type Logger } from '@triplock/runtime';
import type { Message } from 'kafkajs';
import type { IdempotentProducer } from './idempotent-producer.ts';
import { ProduceRefusedError, ProduceUnknownError } from './log.ts';
import { openWaitingRoom, type RoomLimits, type Waiting } from './waiting-room.ts';

/** Limits of appending; times in milliseconds. */
export type AppendLimits = RoomLimits & {
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
  append(message: Message): Promise<void>;
  /** Whether a producer is connected now. */
  isConnected(): boolean;
  close(): Promise<void>;
};

type Batch = { messages: readonly Waiting[]; unknownUpTo: number };

/**
 * Group commit: while one batch is outstanding, messages gather for the next. A producer is used
 * until its first failure; the messages of the failed batch are then unknown, those that wait go
 * with the next producer, and a late answer to the old one acknowledges nothing.
 */
export function appendInBatches({ connect, limits, logger }: AppendOptions): BatchAppender {
  const room = openWaitingRoom(limits);
  const closing = new AbortController();
  let underWay: Batch | undefined;
  let connected = false;
  let timer: NodeJS.Timeout | undefined;

  const watchDeadlines = () => {
    timer = undefined;
    const now = performance.now();
    const next = Math.min(refuseUnknown(underWay, now), room.refuseLate(now) ?? Infinity);
    if (next < Infinity) timer = setTimeout(watchDeadlines, Math.max(1, next - now));
  };

  const sendUntilFailure = async (producer: IdempotentProducer): Promise<void> => {
    let lastBatchAt = -Infinity;
    for (;;) {
      await room.filled();
      const pauseMs = lastBatchAt + limits.gatherMs - performance.now();
      // At least one turn of the event loop, so that requests that arrived together go together.
      await (pauseMs >= 1 ? delay(pauseMs) : nextTurn());
      const messages = room.takeBatch();
      lastBatchAt = performance.now();
      if (messages.length === 0 && closing.signal.aborted) return;
      if (messages.length > 0) await sendBatch(producer, messages);
    }
  };

  const sendBatch = async (producer: IdempotentProducer, messages: Waiting[]): Promise<void> => {
    const batch = { messages, unknownUpTo: 0 };
    underWay = batch;
    try {
      await producer.send(messages.map((waiting) => waiting.message));
      for (const waiting of messages.slice(batch.unknownUpTo)) waiting.resolve();
    } catch (error) {
      for (const waiting of messages.slice(batch.unknownUpTo)) waiting.reject(unknown(error));
      throw error;
    } finally {
      underWay = undefined;
    }
  };

  const run = async (): Promise<void> => {
    let failures = 0;
    while (!closing.signal.aborted || room.size > 0) {
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
        failures += 1;
      }
    }
    clearTimeout(timer);
  };

  const ended = run();
  return {
    isConnected: () => connected,
    append: (message) => {
      if (closing.signal.aborted) return Promise.reject(new ProduceRefusedError('closing'));
      return new Promise((resolve, reject) => {
        const deadline = performance.now() + limits.timeoutMs;
        room.enter({ message, bytes: bytesOf(message), deadline, resolve, reject });
        timer ??= setTimeout(watchDeadlines, limits.timeoutMs);
      });
    },
    close: () => {
      closing.abort();
      room.close();
      return ended;
    },
  };
}

/** Gives up on sent messages whose time is over, and tells the next deadline. */
function refuseUnknown(batch: Batch | undefined, now: number): number {
  if (batch === undefined) return Infinity;
  for (; batch.unknownUpTo < batch.messages.length; batch.unknownUpTo += 1) {
    const waiting = batch.messages[batch.unknownUpTo]!;
    if (waiting.deadline > now) return waiting.deadline;
    waiting.reject(unknown(new Error('no answer in time')));
  }
  return Infinity;
}

function unknown(cause: unknown): ProduceUnknownError {
  return new ProduceUnknownError('the record may or may not be in the topic', { cause });
}

async function rest(failures: number, closing: AbortSignal): Promise<void> {
  const ms = backoffMs(failures, { firstMs: 50, maxMs: 1_000 });
  // A close cuts the first rest short only: with Kafka away, waiting records are refused in time.
  await delay(ms, undefined, closing.aborted ? {} : { signal: closing }).catch(() => undefined);
}

// Framing of one record and its headers, generously.
const recordOverheadBytes = 128;

function bytesOf({ key, value, headers }: Message): number {
  let bytes = recordOverheadBytes + (key?.length ?? 0) + (value?.length ?? 0);
  for (const name in headers) bytes += name.length + 8 + headerBytes(headers[name]);
  return bytes;
}

function headerBytes(value: NonNullable<Message['headers']>[string]): number {
  if (Array.isArray(value)) return value.reduce((sum, each) => sum + each.length + 8, 0);
  return value?.length ?? 0;
}
