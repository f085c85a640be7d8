import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import { backoffMs, type Logger } from '@triplock/runtime';
import type { Message } from 'kafkajs';
import { putUnderWay, type BatchUnderWay } from './batch-under-way.ts';
import type { IdempotentProducer } from './idempotent-producer.ts';
import { ProduceRefusedError } from './log.ts';
import { openWaitingRoom, type RoomLimits, type WaitingRoom } from './waiting-room.ts';
import { earliest, watchDeadlines } from './watch-deadlines.ts';

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

/**
 * Group commit: while one batch is outstanding, messages gather for the next. A producer is used
 * until its first failure; the messages of the failed batch are then unknown, those that wait go
 * with the next producer, and a late answer to the old one acknowledges nothing.
 *
 * A message is on every in-sync replica once its append has resolved. A crash before that leaves it
 * in the topic or not, and nobody was told that it was accepted; a retry appends it again.
 */
export function appendInBatches({ connect, limits, logger }: AppendOptions): BatchAppender {
  const room = openWaitingRoom(limits);
  const closing = new AbortController();
  let underWay: BatchUnderWay | undefined;
  let connected = false;

  const deadlines = watchDeadlines(limits.timeoutMs, (now) =>
    earliest(underWay?.giveUpLate(now), room.refuseLate(now)),
  );
  const sendUntilFailure = async (producer: IdempotentProducer): Promise<void> => {
    let lastBatchAt = -Infinity;
    for (;;) {
      await room.filled();
      await gather(lastBatchAt + limits.gatherMs);
      const records = room.takeBatch();
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
    for (let failures = 0; !closing.signal.aborted || room.size > 0; failures += 1) {
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
      return enter(room, { message, deadline: performance.now() + limits.timeoutMs });
    },
    close: () => {
      closing.abort();
      room.close();
      return ended;
    },
  };
}

function enter(room: WaitingRoom, { message, deadline }: { message: Message; deadline: number }) {
  return new Promise<void>((resolve, reject) => {
    room.enter({ message, bytes: bytesOf(message), deadline, resolve, reject });
  });
}

/** Waits until `until`, and at least one turn, so that what arrived together goes together. */
async function gather(until: number): Promise<void> {
  const ms = until - performance.now();
  await (ms >= 1 ? delay(ms) : nextTurn());
}

async function rest(failures: number, closing: AbortSignal): Promise<void> {
  const ms = backoffMs(failures, { firstMs: 50, maxMs: 1_000 });
  // A close cuts short the rest under way only: records that wait get their other tries.
  const options = closing.aborted ? {} : { signal: closing };
  await delay(ms, undefined, options).catch(() => undefined);
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
