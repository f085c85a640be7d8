import type { ReceivedEvent, ReceiveOutcome } from './inbox.ts';

/** How long the first event of a batch waits for others, and how many go together. */
export type BatchLimits = { gatherMs: number; eventsMax: number };

type Waiting = { received: ReceivedEvent } & PromiseWithResolvers<ReceiveOutcome>;

/**
 * Lets events that arrive within some milliseconds share a transaction, whose round trips cost more
 * than all that is done in it. One batch is under way at a time; a batch that fails is told to
 * each of its events.
 */
export function gatherEvents(
  receiveMany: (received: readonly ReceivedEvent[]) => Promise<ReceiveOutcome[]>,
  { gatherMs, eventsMax }: BatchLimits,
): (received: ReceivedEvent) => Promise<ReceiveOutcome> {
  let waiting: Waiting[] = [];
  let busy = false;

  const receive = async () => {
    const batch = waiting.slice(0, eventsMax);
    waiting = waiting.slice(eventsMax);
    try {
      const outcomes = await receiveMany(batch.map(({ received }) => received));
      for (const [at, { resolve }] of batch.entries()) resolve(outcomes[at]!);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
    busy = false;
    if (waiting.length > 0) begin();
  };
  const begin = () => {
    busy = true;
    setTimeout(() => void receive(), gatherMs);
  };
  return (received) => {
    const event = { received, ...Promise.withResolvers<ReceiveOutcome>() };
    waiting.push(event);
    if (!busy) begin();
    return event.promise;
  };
}
