import type { Event } from '@triplock/contracts';
import type { Queryable } from '@triplock/postgres';

/** An event as it came, and the hash of its bytes as published. */
export type ReceivedEvent<Payload = unknown> = Event<Payload> & {
  payloadHash: string;
  /** The trace that the message came with, for what follows from it. It decides nothing. */
  traceparent?: string;
};

/**
 * Does the consumer's work inside the transaction that remembers the events, `Tx` of its store.
 * They are of different ordering keys, so they have no order among themselves.
 *
 * Everything it does goes through `tx`: a store may repeat its transactions, and what went
 * elsewhere would be done again. Errors of `tx` are let through. What it returns is called once its
 * transaction has ended, each time one did: a crash in between calls nobody.
 */
export type Effect<Payload = unknown, Tx = Queryable> = (
  tx: Tx,
  events: readonly ReceivedEvent<Payload>[],
) => Promise<void | ((ended: TransactionEnd) => void)>;

/** `not-known`: it was rolled back, or its commit was not answered. */
export type TransactionEnd = 'committed' | 'not-known';

/** What receiving an event came to. Everything but `returned` is to be acknowledged. */
export type ReceiveOutcome =
  /** The effect committed together with the inbox row. */
  | { outcome: 'applied' }
  /** Received before: nothing was done. */
  | { outcome: 'duplicate' }
  /** A known event id with other bytes: not applied, and a person must look. */
  | { outcome: 'altered'; knownHash: string }
  /**
   * An earlier sequence of its ordering key is still to come. It is kept here, and takes effect
   * when that one has.
   */
  | { outcome: 'early'; expected: number }
  /** The same, and too many are kept already: give it back to the broker. */
  | { outcome: 'returned'; expected: number }
  /**
   * It reads like an event, and yet no redelivery will make the database take it: keep it aside.
   */
  | { outcome: 'unstorable'; detail: string };

/**
 * Guard 3 at the receiver: one effect per (consumer, event id), in the sequence of its ordering
 * key. A rejection means that nothing was committed or that the outcome is unknown; receiving again
 * is safe.
 */
export type Inbox<Tx = Queryable> = {
  /**
   * Receives events by few statements, with the outcome of each in the order given. They share
   * transactions, and one that the database does not take spoils none of the others. Events of one
   * ordering key are applied in their sequence, whatever order they are given in; those that came
   * early before follow at once.
   */
  receive<Payload>(
    events: readonly ReceivedEvent<Payload>[],
    effect: Effect<Payload, Tx>,
  ): Promise<ReceiveOutcome[]>;
  /**
   * Applies kept events that come next by now, which is what a crash right after the one before
   * leaves; and forgets those that were applied. Returns what is kept then.
   */
  followUp<Payload>(effect: Effect<Payload, Tx>): Promise<EarlyEvents>;
  /**
   * Forgets up to `rowsMax` events that were received longer than `keepMs` ago, a day at least,
   * oldest first. Returns how many. The cursors stay, so a copy that comes later is still known by
   * its sequence; an event without one is never forgotten.
   */
  reap(horizon: { keepMs: number; rowsMax: number }): Promise<number>;
};

/** How many events wait for one before them, and how long the oldest has; 0 if none does. */
export type EarlyEvents = { events: number; oldestSeconds: number };

/** A message as the broker delivered it. */
export type DeliveredMessage = {
  id: string;
  data: Buffer;
  attributes: Readonly<Record<string, string>>;
};

/** Why a message is no event of ours; `reason` is a stable word, `detail` is for people. */
export type Refusal = { reason: string; detail: string };

/**
 * Keeps poison messages, which no redelivery would make better, so that they can be acknowledged
 * and hold up nothing.
 */
export type RefusedMessages = {
  /** Once it resolves the message is durable here and may be acknowledged. */
  record(message: DeliveredMessage, refusal: Refusal): Promise<'recorded' | 'known'>;
};
