import type { ReceivedEvent } from './inbox.ts';

/**
 * Parts events so that no round has two of one payment: the first round has each payment's lowest
 * sequence, the next one the second lowest. A copy of an event is in a later round than the event.
 */
export function roundsOf(received: readonly ReceivedEvent[]): ReceivedEvent[][] {
  const ofPayment = Map.groupBy(received, ({ event }) => event.payment_id);
  const rounds: ReceivedEvent[][] = [];
  for (const events of ofPayment.values()) {
    events.sort((one, other) => sequenceOf(one) - sequenceOf(other));
    for (const [nth, event] of events.entries()) (rounds[nth] ??= []).push(event);
  }
  return rounds;
}

/** Events without a sequence wait for nobody. */
function sequenceOf({ event }: ReceivedEvent): number {
  return event.sequence ?? 0;
}
