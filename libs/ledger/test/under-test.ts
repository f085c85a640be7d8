import type { TestContext } from 'node:test';
import type { EventId, TxnId } from '@triplock/payments';
import type { Ledger } from '../ledger.ts';
import type { Outbox } from '../outbox.ts';
import type { Refunds } from '../refunds.ts';
import type { TakeDue, WakeDue } from '../unfinished.ts';

/** A ledger to try, and a way to see what is committed in its store. */
export type LedgerUnderTest = {
  ledger: Ledger;
  /** The same ledger seen by another worker. */
  another: Ledger;
  entries(): Promise<{ txnId: string; debit: string; credit: string; amount: bigint }[]>;
  events(): Promise<StoredEvent[]>;
};

/** An outbox row as the suite compares it. */
export type StoredEvent = {
  eventId: string;
  eventType: string;
  txnId: string;
  sequence: number | null;
  payload: string;
};

/** A ledger with its refunds, and the same refunds seen by another worker. */
export type RefundsUnderTest = LedgerUnderTest & { refunds: Refunds; otherRefunds: Refunds };

/** A ledger, and who looks after what nobody finished. */
export type ChargingUnderTest = RefundsUnderTest & {
  takeDue: TakeDue;
  wakeDue: WakeDue;
  /** Lets every pending row be due now, as time does. */
  letTimePass(): Promise<void>;
};

/** An outbox to try, and a way to fill it. */
export type OutboxUnderTest = {
  outbox: Outbox;
  /** The same outbox seen by another dispatcher. */
  another: Outbox;
  /** Commits the next event of a payment. */
  append(paymentId: TxnId): Promise<EventId>;
  /**
   * Draws an order id for a payment's event now and commits it only when `commit` is called, so
   * that others with higher order ids can come first.
   */
  appendLate(paymentId: TxnId): Promise<{ eventId: EventId; commit(): Promise<void> }>;
  stateOf(eventId: EventId): Promise<'pending' | 'published' | 'parked'>;
};

/** Opens an empty outbox for one test. */
export type OpenOutbox = (context: TestContext) => Promise<OutboxUnderTest>;
