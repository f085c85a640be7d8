import type { PaymentEvent } from '@triplock/contracts';
import type { Queryable } from '@triplock/postgres';

/** An event as received: parsed, and the hash of its bytes as published. */
export type ReceivedEvent = { event: PaymentEvent; payloadHash: string };

/** Does the consumer's work inside the transaction that remembers the event. */
export type Effect = (tx: Queryable, event: PaymentEvent) => Promise<void>;

/** What receiving an event came to. Everything but `early` is to be acknowledged. */
export type ReceiveOutcome =
  /** The effect committed together with the inbox row. */
  | { outcome: 'applied' }
  /** Received before: nothing was done. */
  | { outcome: 'duplicate' }
  /** A known event id with other bytes: not applied, and somebody must look. */
  | { outcome: 'altered'; knownHash: string }
  /** An earlier sequence of the payment is still to come: give it back to the broker. */
  | { outcome: 'early'; expected: number };

/**
 * Guard 3 at the receiver: one effect per (consumer, event id), in the payment's sequence.
 * A rejection means that nothing was committed or that the outcome is unknown; receiving again
 * is safe.
 */
export type Inbox = {
  receive(received: ReceivedEvent, effect: Effect): Promise<ReceiveOutcome>;
  /**
   * Forgets up to `rowsMax` events that were received longer than `keepMs` ago, a day at least,
   * oldest first. Returns how many. The cursors stay, so a copy that comes later is still known by
   * its sequence; an event without one is never forgotten.
   */
  reap(horizon: { keepMs: number; rowsMax: number }): Promise<number>;
};
