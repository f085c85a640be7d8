import type { EventId } from '@triplock/payments';

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
