import {
  bucketCount,
  encodePaymentEvent,
  keyConflictEventOf,
  followUpKeyConflictEventOf,
  type PaymentEvent,
} from '@triplock/contracts';
import {
  bucketOf,
  type Entry,
  type EventId,
  type Settlement,
  type TxnId,
} from '@triplock/payments';
import {
  databaseErrorKind,
  loadStatements,
  type Database,
  type Queryable,
} from '@triplock/postgres';
import { UnpostableError, type Posting } from '../ledger.ts';
import { failureIn } from '../outcomes.ts';
import type { FollowUpPosting } from '../follow-ups.ts';

const sql = loadStatements(import.meta.url, 'settlement.sql', [
  'appendSettlements',
  'appendEvent',
  'recordKeyConflict',
]);

/** A final state for one row; what settling a payment and a refund have in common. */
type SettledAs = { txnId: TxnId; version: number; result: Settlement; settledAt: Date };

/** The parameters of both, in their order. */
export function settleParameters(
  { txnId, version, result, settledAt }: SettledAs,
  providerId: string | undefined,
): unknown[] {
  const { code, message } = failureIn(result) ?? { code: null, message: null };
  return [txnId, version, result.state, code, message, settledAt, providerId ?? null];
}

/** What a settlement writes: its event, and the entry when money moves. */
export type Consequences = {
  event: PaymentEvent;
  traceparent: string;
  entry: Entry | undefined;
};

/** Writes them, in the transaction that settles. */
export async function appendSettlement(tx: Queryable, what: Consequences): Promise<void> {
  await appendSettlements(tx, [what]);
}

/** Writes those of several transactions, of which no two are the same. */
export async function appendSettlements(
  tx: Queryable,
  all: readonly Consequences[],
): Promise<void> {
  if (all.length === 0) return;
  const rows = all.map(({ event, traceparent, entry }) => [
    event.txn_id,
    entry?.debit ?? null,
    entry?.credit ?? null,
    entry?.money.amount ?? null,
    entry?.money.currency ?? null,
    event.event_id,
    event.type,
    event.partner_id,
    bucketOf(event.payment_id, bucketCount),
    event.sequence,
    encodePaymentEvent(event).payload,
    traceparent,
    event.payment_id,
  ]);
  await tx.query(sql.appendSettlements, columnsOf(rows));
}

/** Writes an event of a payment that stays pending, in the transaction that changes it. */
export async function appendEvent(
  tx: Queryable,
  event: PaymentEvent,
  traceparent: string,
): Promise<void> {
  await tx.query(sql.appendEvent, [
    event.event_id,
    event.type,
    event.txn_id,
    event.payment_id,
    event.partner_id,
    bucketOf(event.payment_id, bucketCount),
    event.sequence,
    encodePaymentEvent(event).payload,
    traceparent,
  ]);
}

/** Reports a losing payment by `Ledger.recordKeyConflict`'s contract. */
export function recordKeyConflict(database: Database, posting: Posting): Promise<EventId> {
  return record(database, keyConflictEventOf(posting.payment), posting.traceparent);
}

/** Reports a losing refund by `Refunds.recordKeyConflict`'s contract. */
export function recordFollowUpConflict(
  database: Database,
  posting: FollowUpPosting,
): Promise<EventId> {
  return record(database, followUpKeyConflictEventOf(posting.followUp), posting.traceparent);
}

async function record(
  database: Database,
  event: PaymentEvent,
  traceparent: string,
): Promise<EventId> {
  await blamingInput(() =>
    database.query(sql.recordKeyConflict, [
      event.event_id,
      event.txn_id,
      event.partner_id,
      bucketOf(event.payment_id, bucketCount),
      encodePaymentEvent(event).payload,
      traceparent,
      event.payment_id,
    ]),
  );
  return event.event_id;
}

/**
 * Runs a write and says of its error whether the input is to blame: what PostgreSQL can never
 * store becomes an UnpostableError, everything else is thrown as it came.
 */
export async function blamingInput<Result>(write: () => Promise<Result>): Promise<Result> {
  try {
    return await write();
  } catch (error) {
    if (databaseErrorKind(error) !== 'data') throw error;
    throw new UnpostableError((error as Error).message, { cause: error });
  }
}

/** Rows, one at least, as the arrays of their columns: as a statement unnests them. */
export function columnsOf(rows: readonly (readonly unknown[])[]): unknown[][] {
  return rows[0]!.map((_, column) => rows.map((row) => row[column]));
}
