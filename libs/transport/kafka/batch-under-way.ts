import type { Message } from 'kafkajs';
import { ProduceUnknownError } from './log.ts';
import type { Waiting } from './waiting-room.ts';

/** A batch that was handed to a producer. Each of its records is settled once. */
export type BatchUnderWay = {
  readonly messages: Message[];
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
