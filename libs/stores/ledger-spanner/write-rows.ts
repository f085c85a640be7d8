import { detailsText, otherDetails } from '@triplock/ledger';
import { bucketCount, encodePaymentEvent, type PaymentEvent } from '@triplock/contracts';
import {
  bucketOf,
  type AcceptedPayment,
  type Entry,
  type Settlement,
  type TxnId,
} from '@triplock/payments';
import { commitTimestamp, type Value } from './spanner/values.ts';
import { type Write } from './spanner/writes.ts';

/** Columns to write, by name. */
export type Columns = Record<string, Value>;

/** A new row of `transactions`; what is not given is null, so that rows of a batch are alike. */
export function insertTransaction(columns: Columns): Write {
  const told = Object.entries(columns).map(([column, value]) => [column, value ?? null]);
  return write('insert', 'transactions', Object.fromEntries(told) as Columns);
}

/** Changes a row of `transactions` that the same transaction has read. */
export function updateTransaction(row: Columns & { txn_id: string; version: bigint }): Write {
  return write('update', 'transactions', row);
}

/** Lets a pending row be due; its version stays, so a worker that is at it goes on. */
export function updateWaiting(row: { txn_id: string; due_at: Date }): Write {
  return write('update', 'transactions', row);
}

function write(kind: 'insert' | 'update', table: string, columns: Columns): Write {
  return { kind, table, row: { ...columns, changed_at: commitTimestamp } };
}

/** The columns that say what was asked for; they never change. */
export function requestColumns(payment: AcceptedPayment): Columns {
  const { money, paymentMethod, reference } = payment.details;
  return {
    txn_id: payment.txnId,
    partner_id: payment.partnerId,
    idempotency_key: payment.key,
    fingerprint: payment.fingerprint,
    response_version: payment.responseVersion,
    amount: money.amount,
    currency: money.currency,
    payment_method: paymentMethod,
    reference,
    details: detailsText(otherDetails(payment)),
    created_at: payment.acceptedAt,
  };
}

/** The columns of a final state. */
export function finalColumns(result: Settlement, settledAt: Date): Columns {
  const failure = result.state === 'failed' ? result.failure : undefined;
  return {
    state: result.state,
    settled_at: settledAt,
    failure_code: failure?.code ?? null,
    failure_message: failure?.message ?? null,
    due_at: null,
  };
}

/** The double entry of a transaction. */
export function insertEntry(txnId: TxnId, { debit, credit, money }: Entry): Write {
  const row = {
    txn_id: txnId,
    debit_account: debit,
    credit_account: credit,
    amount: money.amount,
    currency: money.currency,
    created_at: commitTimestamp,
  };
  return { kind: 'insert', table: 'entries', row };
}

/**
 * An event that waits to be published. Its order is its commit's timestamp: two commits that change
 * one payment never have the same, nor the wrong way round, because both hold the payment's row.
 */
export function insertEvent(event: PaymentEvent, traceparent: string): Write {
  const row = {
    event_id: event.event_id,
    event_type: event.type,
    txn_id: event.txn_id,
    payment_id: event.payment_id,
    partner_id: event.partner_id,
    bucket: bucketOf(event.payment_id, bucketCount),
    sequence: event.sequence ?? null,
    payload: encodePaymentEvent(event).payload,
    traceparent,
    state: 'pending',
    created_at: commitTimestamp,
    changed_at: commitTimestamp,
  };
  return { kind: 'insert', table: 'outbox', row };
}
