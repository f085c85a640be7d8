import type { EventId } from '@triplock/payments';

/** The names of what crosses a broker. A change of form gets a new version and a new name. */
export const topics = {
  /** Kafka: payments as the gateway accepted them, keyed by their payment's id. */
  accepted: 'payments.accepted.v1',
  /** Kafka: records that can never be posted, with their original bytes. */
  deadLetter: 'payments.dead-letter.v1',
  /** Kafka: events as they were published, kept for a ledger that is set back. */
  told: 'payment-events.told.v1',
  /** Pub/Sub: events of the ledger, in order for each payment. */
  events: 'payment-events.v1',
} as const;

/** Outbox leases and warm markers: 64 buckets each. Ordering keys of events are shared by them. */
export const bucketCount = 64;

/**
 * How long a claim is kept from the first request on, in every store, milliseconds: partners are
 * promised that a retry is answered for so long. What retries are answered about has to be kept for
 * longer.
 */
export const claimLifeMs = 86_400_000;

/**
 * An event as everybody knows it who only carries it: the outbox, the transport, an inbox and what
 * consumers are made of. What it says is its payload's, which only those read who made it or have
 * an effect of it.
 */
export type Event<Payload = unknown> = {
  /** The same on every copy, so it is what a copy is known by. */
  id: EventId;
  /** A UUID. Events of one key have an order among themselves, those of two keys have none. */
  orderingKey: string;
  /** 1, 2, 3, … within the key, without a gap; absent for an event that waits for no other. */
  sequence?: number;
  type: string;
  payload: Payload;
};
