import { setImmediate as turnOfTheLoop } from 'node:timers/promises';
import { inBatchSpan } from '@triplock/runtime';
import type { ReceivedEvent, ReceiveOutcome } from './inbox.ts';

/**
 * How long after the beginning of a batch the next one begins at the soonest, and how many go
 * together.
 */
export type BatchLimits = { apartMs: number; eventsMax: number };

type Waiting = { received: ReceivedEvent } & PromiseWithResolvers<ReceiveOutcome>;

/**
 * Lets events share a transaction, whose round trips cost more than all that is done in it. One
 * batch is under way at a time, and what comes meanwhile is the next one; an event that comes after
 * a calm waits for nothing. When a batch fails, each of its events fails.
 */
export function gatherEvents(
  receiveMany: (received: readonly ReceivedEvent[]) => Promise<ReceiveOutcome[]>,
  { apartMs, eventsMax }: BatchLimits,
): (received: ReceivedEvent) => Promise<ReceiveOutcome> {
  const waiting: Waiting[] = [];
  let rest = Promise.resolve();
  let busy = false;

  const receive = async (batch: readonly Waiting[]): Promise<void> => {
    try {
      const events = batch.map(({ received }) => received);
      const of = () => events.flatMap(({ traceparent }) => traceparent ?? []);
      const outcomes = await inBatchSpan({ name: 'admit events', of }, () => receiveMany(events));
      for (const [at, { resolve }] of batch.entries()) resolve(outcomes[at]!);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  };
  const receiveAll = async (): Promise<void> => {
    busy = true;
    while (waiting.length > 0) {
      await rest;
      // What came by one read, and what the end of the last batch let through, goes together.
      await turnOfTheLoop();
      rest = new Promise((resolve) => setTimeout(resolve, apartMs));
      await receive(waiting.splice(0, eventsMax));
    }
    busy = false;
  };
  return (received) => {
    const event = { received, ...Promise.withResolvers<ReceiveOutcome>() };
    waiting.push(event);
    if (!busy) void receiveAll();
    return event.promise;
  };
}
