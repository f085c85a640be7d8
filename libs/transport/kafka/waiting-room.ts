import type { Message } from 'kafkajs';
import { ProduceRefusedError } from './log.ts';

/**
 * A message that waits to be sent, and the caller that waits for it. Times are of
 * `performance.now()`.
 */
export type Waiting = {
  message: Message;
  bytes: number;
  deadline: number;
  resolve: () => void;
  reject: (error: Error) => void;
};

/** How much may wait, and how much goes into one batch. */
export type RoomLimits = {
  batchRecordsMax: number;
  batchBytesMax: number;
  waitingRecordsMax: number;
  waitingBytesMax: number;
};

/**
 * A queue with limits: what waits too long or finds it full is refused, and nothing is lost.
 */
export type WaitingRoom = {
  readonly size: number;
  /** @throws ProduceRefusedError when the room is full. */
  enter(waiting: Waiting): void;
  /** Takes the next batch out; it is empty only when the room is. */
  takeBatch(): Waiting[];
  /** Refuses those whose deadline has passed and returns the next deadline. */
  refuseLate(now: number): number | undefined;
  /** Resolves when somebody waits, or when it is closed. */
  filled(): Promise<void>;
  /** Lets `filled` resolve for good. */
  close(): void;
};

/** Opens an empty room. */
export function openWaitingRoom(limits: RoomLimits): WaitingRoom {
  const queue: Waiting[] = [];
  let queuedBytes = 0;
  let closed = false;
  let wake: (() => void) | undefined;

  const take = (count: number): Waiting[] => {
    const taken = queue.splice(0, count);
    for (const { bytes } of taken) queuedBytes -= bytes;
    return taken;
  };
  const call = () => {
    wake?.();
    wake = undefined;
  };
  return {
    get size() {
      return queue.length;
    },
    enter: (waiting) => {
      if (waiting.bytes > limits.batchBytesMax) {
        throw new ProduceRefusedError(`a record of ${waiting.bytes} bytes is too large to send`);
      }
      if (queue.length >= limits.waitingRecordsMax || queuedBytes >= limits.waitingBytesMax) {
        throw new ProduceRefusedError(`${queue.length} records wait already`);
      }
      queue.push(waiting);
      queuedBytes += waiting.bytes;
      call();
    },
    takeBatch: () => take(batchLength(queue, limits)),
    refuseLate: (now) => {
      const onTime = queue.findIndex((waiting) => waiting.deadline > now);
      for (const late of take(onTime === -1 ? queue.length : onTime)) {
        late.reject(new ProduceRefusedError('no producer took the record in time'));
      }
      return queue[0]?.deadline;
    },
    filled: () =>
      queue.length > 0 || closed
        ? Promise.resolve()
        : new Promise((resolve) => {
            wake = resolve;
          }),
    close: () => {
      closed = true;
      call();
    },
  };
}

function batchLength(queue: readonly Waiting[], limits: RoomLimits): number {
  let bytes = 0;
  let length = 0;
  for (const waiting of queue) {
    bytes += waiting.bytes;
    if (length === limits.batchRecordsMax || bytes > limits.batchBytesMax) break;
    length += 1;
  }
  return length;
}
