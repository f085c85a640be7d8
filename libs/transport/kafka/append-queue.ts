import type { OutgoingRecord } from './driver.ts';

/** Thrown before anything was sent: the record is certainly not in the topic. */
export class ProduceRefusedError extends Error {
  override name = 'ProduceRefusedError';
}

/**
 * The record may or may not be in the topic. Unknown is not failed: a retry may duplicate
 * it.
 */
export class ProduceUnknownError extends Error {
  override name = 'ProduceUnknownError';
}

/**
 * A message that waits to be sent, and the caller that waits for it. Times are of
 * `performance.now()`.
 */
export type Waiting = {
  message: OutgoingRecord;
  bytes: number;
  deadline: number;
  resolve: () => void;
  reject: (error: Error) => void;
};

/** How much may wait, and how much goes into one batch. */
export type QueueLimits = {
  batchRecordsMax: number;
  batchBytesMax: number;
  waitingRecordsMax: number;
  waitingBytesMax: number;
};

/**
 * A queue with limits: what waits too long or finds it full is refused, and nothing is lost.
 */
export type AppendQueue = {
  readonly size: number;
  /** @throws ProduceRefusedError when it is full. */
  add(waiting: Waiting): void;
  /** Takes the next batch out; it is empty only when the queue is. */
  takeBatch(): Waiting[];
  /** Refuses those whose deadline has passed and returns the next deadline. */
  refuseLate(now: number): number | undefined;
  /** Resolves when somebody waits, or when it is closed. */
  filled(): Promise<void>;
  /** Lets `filled` resolve for good. */
  close(): void;
};

/** Opens an empty queue. It has no part in sending: whoever takes a batch settles its records. */
export function openAppendQueue(limits: QueueLimits): AppendQueue {
  const waiting: Waiting[] = [];
  let queuedBytes = 0;
  let closed = false;
  let wake: (() => void) | undefined;

  const take = (count: number): Waiting[] => {
    const taken = waiting.splice(0, count);
    for (const { bytes } of taken) queuedBytes -= bytes;
    return taken;
  };
  const wakeUp = () => {
    wake?.();
    wake = undefined;
  };
  return {
    get size() {
      return waiting.length;
    },
    add: (record) => {
      if (record.bytes > limits.batchBytesMax) {
        throw new ProduceRefusedError(`a record of ${record.bytes} bytes is too large to send`);
      }
      if (waiting.length >= limits.waitingRecordsMax || queuedBytes >= limits.waitingBytesMax) {
        throw new ProduceRefusedError(`${waiting.length} records wait already`);
      }
      waiting.push(record);
      queuedBytes += record.bytes;
      wakeUp();
    },
    takeBatch: () => take(batchLength(waiting, limits)),
    refuseLate: (now) => {
      const onTime = waiting.findIndex((record) => record.deadline > now);
      for (const late of take(onTime === -1 ? waiting.length : onTime)) {
        late.reject(new ProduceRefusedError('no producer took the record in time'));
      }
      return waiting[0]?.deadline;
    },
    filled: () =>
      waiting.length > 0 || closed
        ? Promise.resolve()
        : new Promise((resolve) => {
            wake = resolve;
          }),
    close: () => {
      closed = true;
      wakeUp();
    },
  };
}

function batchLength(queue: readonly Waiting[], limits: QueueLimits): number {
  let bytes = 0;
  let length = 0;
  for (const waiting of queue) {
    bytes += waiting.bytes;
    if (length === limits.batchRecordsMax || bytes > limits.batchBytesMax) break;
    length += 1;
  }
  return length;
}

/** A batch that was handed to a producer. Each of its records is settled once. */
export type BatchUnderWay = {
  readonly messages: OutgoingRecord[];
  acknowledge(): void;
  /** The whole batch is unknown. */
  fail(cause: unknown): void;
  /** Gives up on records whose deadline has passed and returns the next deadline. */
  giveUpLate(now: number): number | undefined;
};

/** Puts records that waited, oldest first, under way. */
export function putUnderWay(records: readonly Waiting[]): BatchUnderWay {
  let settled = 0;
  const open = () => records.slice(settled);
  return {
    messages: records.map((record) => record.message),
    acknowledge: () => {
      for (const record of open()) record.resolve();
      settled = records.length;
    },
    fail: (cause) => {
      for (const record of open()) record.reject(unknown(cause));
      settled = records.length;
    },
    giveUpLate: (now) => {
      for (; settled < records.length; settled += 1) {
        const record = records[settled]!;
        if (record.deadline > now) return record.deadline;
        record.reject(unknown(new Error('no answer in time')));
      }
      return undefined;
    },
  };
}

function unknown(cause: unknown): ProduceUnknownError {
  return new ProduceUnknownError('the record may or may not be in the topic', { cause });
}

/** A running watch. */
export type DeadlineWatch = {
  /** A deadline begins now, unless one is awaited already. */
  expect(): void;
  stop(): void;
};

/**
 * One timer for all deadlines, which pass in the order in which records came. `check` settles those
 * that have passed and returns the next one.
 */
export function watchDeadlines(
  timeoutMs: number,
  check: (now: number) => number | undefined,
): DeadlineWatch {
  let timer: NodeJS.Timeout | undefined;
  const look = () => {
    const now = performance.now();
    const next = check(now);
    timer = next === undefined ? undefined : setTimeout(look, Math.max(1, next - now));
  };
  return {
    expect: () => void (timer ??= setTimeout(look, timeoutMs)),
    stop: () => clearTimeout(timer),
  };
}

/** The earlier of two deadlines, where there is one. */
export function earliest(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || other === undefined ? (one ?? other) : Math.min(one, other);
}
