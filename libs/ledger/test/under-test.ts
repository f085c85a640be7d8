import type { TestContext } from 'node:test';
import type {
  AcceptedPayment,
  AcceptedFollowUp,
  EventId,
  Settlement,
  TxnId,
} from '@triplock/payments';
import { aPayment } from '@triplock/testing';
import type { Ledger, Posting, PostOutcome } from '../ledger.ts';
import type { Outbox } from '../outbox.ts';
import type { FollowUps } from '../follow-ups.ts';
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
export type FollowUpsUnderTest = LedgerUnderTest & {
  followUps: FollowUps;
  otherFollowUps: FollowUps;
};

/** A ledger, and who looks after what nobody finished. */
export type ChargingUnderTest = FollowUpsUnderTest & {
  takeDue: TakeDue;
  wakeDue: WakeDue;
  /** Lets every pending row, or this one alone, be due now, as time does. */
  letTimePass(only?: TxnId): Promise<void>;
  /** How long until a pending row is due, milliseconds by the store's clock. */
  dueInMs(txnId: TxnId): Promise<number>;
  /** Writes a row's column `details` past every check, as damage does. */
  writeDetails(txnId: TxnId, details: string | null): Promise<void>;
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

export const traceparent = '00-11111111111111111111111111111111-2222222222222222-01';
/** When everything here is settled. */
export const settledNow = new Date('2026-03-04T05:06:07.089Z');

export function bookTransferOf(payment: AcceptedPayment): Posting {
  return settledAs(payment, { state: 'succeeded' });
}

export function settledAs(
  payment: AcceptedPayment,
  result: Settlement,
  settledAt = settledNow,
): Posting {
  return { payment, traceparent, settlement: { result, settledAt } };
}

export function pendingOf(payment: AcceptedPayment, provider = 'stripe'): Posting {
  const isCharged = payment.details.paymentMethod !== undefined;
  return { payment, traceparent, ...(isCharged && { provider }) };
}

export function count(outcomes: readonly PostOutcome[], wanted: PostOutcome['outcome']): number {
  return outcomes.filter(({ outcome }) => outcome === wanted).length;
}

/** A refund as a worker posts it. */
export const posting = (followUp: AcceptedFollowUp) => ({
  followUp,
  traceparent,
  settledAt: settledNow,
});

/** A book transfer of 100 that is in the ledger. */
export async function aTransfer({ ledger }: FollowUpsUnderTest, amount = 100n) {
  const payment = aPayment({ amount });
  await ledger.post([bookTransferOf(payment)]);
  return payment;
}

/** A card payment whose intent is stored, and which is not due yet. */
export async function aChargedCard({ ledger }: ChargingUnderTest, intentId: string) {
  const payment = aPayment({ amount: 100n, paymentMethod: 'pm_card_visa' });
  const { txnId } = payment;
  await ledger.post([pendingOf(payment)]);
  await ledger.storeIntent({ txnId, version: 1, provider: 'stripe', intentId });
  const settle = () => {
    const settlement = { result: { state: 'succeeded' as const }, settledAt: settledNow };
    return ledger.settle({ txnId, version: 2, traceparent, chargeId: 'ch_1', ...settlement });
  };
  return { payment, txnId, settle };
}
