import { bucketCount, encodePaymentEvent, type PaymentEvent } from '@triplock/contracts';
import {
  detailsText,
  type DisputeReport,
  failureIn,
  otherDetails,
  paymentOf,
  type ProviderColumns,
  followUpOf,
  transactionColumns,
  type TransactionRow as PostgresRow,
} from '@triplock/ledger';
import {
  type AcceptedPayment,
  bucketOf,
  deriveDisputeId,
  type DisputeEnd,
  type Entry,
  type FollowUpKind,
  type Payment,
  type PaymentKind,
  type FollowUp,
  type Settlement,
  type TxnId,
} from '@triplock/payments';
import { commitTimestamp, type Lookup, type Value, type Write } from './spanner/values.ts';

/** Columns to write, by name. */
export type Columns = Record<string, Value>;

/** As many parts as its index of changes has: see the table's `shard`. */
export const transactionShards = 16;

/** A new row of `transactions`; what is not given is null, so that rows of a batch are alike. */
export function insertTransaction(columns: Columns): Write {
  const all = Object.entries(columns).map(([column, value]) => [column, value ?? null]);
  return write('insert', 'transactions', Object.fromEntries(all) as Columns);
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
    kind: payment.kind,
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
  const failure = failureIn(result);
  return {
    state: result.state,
    settled_at: settledAt,
    failure_code: failure?.code ?? null,
    failure_message: failure?.message ?? null,
    next_action: null,
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

/** A dispute of a payment, told by the event of that number. */
export function insertDispute(
  { txnId, partnerId }: Pick<AcceptedPayment, 'txnId' | 'partnerId'>,
  report: DisputeReport,
  { disputedAt, sequence }: { disputedAt: Date; sequence: number },
): Write {
  const { disputeId, amount, reason, evidenceDueBy = null } = report;
  const said = { dispute_id: disputeId, amount, reason, evidence_due_by: evidenceDueBy };
  const ids = { txn_id: txnId, id: deriveDisputeId(report), partner_id: partnerId };
  const row = { ...ids, ...said, sequence: BigInt(sequence), created_at: disputedAt };
  return { kind: 'insert', table: 'disputes', row };
}

/** How a dispute ended that is there, or is written with it. */
export function insertDisputeEnd(
  txnId: TxnId,
  { disputeId, ended, endedAt }: { disputeId: string; ended: DisputeEnd; endedAt: Date },
): Write {
  const row = { txn_id: txnId, dispute_id: disputeId, ended, ended_at: endedAt };
  return { kind: 'insert', table: 'dispute_ends', row };
}

/**
 * An event that waits to be published. Its order is its commit's timestamp, and its sequence beside
 * another of that commit: two commits that change one payment never have the same, nor the wrong
 * way round, because both hold the payment's row.
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

/** A row of `transactions`. Whole numbers are bigints, as Spanner has no smaller ones. */
export type TransactionRow = {
  [Column in keyof PostgresRow]: PostgresRow[Column] extends number ? bigint : PostgresRow[Column];
};

/**
 * The payment that a row of any kind holds that follows no other; the table's checks give it an
 * amount.
 */
export function paymentFrom(row: TransactionRow): Payment {
  const kind = row.kind as PaymentKind;
  return paymentOf({ ...row, ...small(row), kind, amount: row.amount!, currency: row.currency! });
}

/**
 * The refund, capture or cancellation that a row holds, with the charge of its payment where that
 * is the same partner's.
 */
export function followUpFrom(row: TransactionRow, payment: TransactionRow | undefined): FollowUp {
  const of = { kind: row.kind as FollowUpKind, payment_id: row.payment_id! };
  return followUpOf({ ...row, ...small(row), ...chargeOf(payment), ...of });
}

/** The payment of a refund, unless the row found under its id is something else. */
export function paymentOfFollowUp(
  refund: { partner_id: string },
  found: TransactionRow | undefined,
): TransactionRow | undefined {
  const isTheirs = found?.kind === 'payment' && found.partner_id === refund.partner_id;
  return isTheirs ? found : undefined;
}

function small({ response_version, version, events }: TransactionRow) {
  return {
    response_version: Number(response_version),
    version: Number(version),
    events: Number(events),
  };
}

function chargeOf(payment: TransactionRow | undefined): ProviderColumns {
  return {
    provider: payment?.provider ?? null,
    provider_intent_id: payment?.provider_intent_id ?? null,
    provider_charge_id: payment?.provider_charge_id ?? null,
  };
}

/** What rows can be read from: a transaction, a moment, or the database as it is now. */
export type Reader = { read<Row>(lookup: Lookup): Promise<Row[]> };

/** A transaction's row. */
export async function readTransaction(
  reader: Reader,
  txnId: TxnId,
): Promise<TransactionRow | undefined> {
  const [row] = await reader.read<TransactionRow>({
    table: 'transactions',
    columns: transactionColumns,
    keys: [[txnId]],
  });
  return row;
}
