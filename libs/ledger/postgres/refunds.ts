import { refundEventOf } from '@triplock/contracts';
import { loadStatements, type Database, type Queryable } from '@triplock/postgres';
import type { SettleOutcome } from '../ledger.ts';
import { refundMovement, refuseBadEnd } from '../outcomes.ts';
import {
  resultOf,
  type RefundDecision,
  type RefundOutcome,
  type RefundPosting,
} from '../refunds.ts';
import type { Refunds, ReservedRefund, SettleRefundRequest } from '../refunds.ts';
import { detailsText, otherRefundDetails } from '../rows.ts';
import { ownMs } from '../unfinished.ts';
import { settleIn } from './payments.ts';
import {
  appendSettlement,
  blamingInput,
  recordRefundConflict,
  settleParameters,
} from './settlement.ts';
import { findRefund, listRefunds, readStates, storeRefundId } from './transactions.ts';

const sql = loadStatements(import.meta.url, 'refunds.sql', [
  'postRefund',
  'reserveRefund',
  'reserveClosing',
  'settleRefund',
]);

/**
 * Refunds in PostgreSQL, schema `ledger`. Writing needs the role `triplock_ledger`; `find` and
 * `listOf` need only to read `ledger.transactions`. The pool stays the caller's to close.
 */
export function openPostgresRefunds(database: Database): Refunds {
  return {
    post: (posting) => blamingInput(() => database.transaction((tx) => postRefund(tx, posting))),
    settle: (request) =>
      blamingInput(() => database.transaction((tx) => settleRefund(tx, request))),
    storeRefundId: (request) => storeRefundId(database, request),
    recordKeyConflict: (posting) => recordRefundConflict(database, posting),
    find: (txnId) => findRefund(database, txnId),
    listOf: (request) => listRefunds(database, request),
  };
}

/** Posts a refund by `Refunds.post`'s contract, in the transaction that it is given. */
async function postRefund(tx: Queryable, posting: RefundPosting): Promise<RefundOutcome> {
  const { txnId } = posting.refund;
  const row = await insert(tx, posting);
  if (row !== 'made' && row !== 'unfinished') return row;
  const reserve = posting.refund.kind === 'refund' ? sql.reserveRefund : sql.reserveClosing;
  const [judged] = await tx.query<{ decision: RefundDecision }>(reserve, [txnId]);
  const refund = await findRefund(tx, txnId);
  if (refund === undefined) throw new Error(`refund ${txnId} was posted and cannot be found`);
  // Another worker made it final while this one waited for its row.
  if (judged === undefined) return { outcome: 'already-recorded', state: refund.state };
  if (judged.decision === 'waiting') return { outcome: 'waiting' };
  if (judged.decision === 'reserved' && refund.provider !== undefined) {
    const outcome = row === 'made' ? 'reserved' : 'unfinished';
    return { outcome, refund: refund as ReservedRefund };
  }
  const result = resultOf(judged.decision);
  const { traceparent, settledAt } = posting;
  const request = { txnId, version: refund.version, result, settledAt, traceparent };
  const settled = await settleRefund(tx, request);
  // The row is locked since it was judged, so nobody else can have changed it.
  if (settled.outcome === 'stale') throw new Error(`refund ${txnId} changed under its lock`);
  return { outcome: 'settled', state: result.state };
}

/** Makes the row, or says what is under its id already. */
async function insert(
  tx: Queryable,
  { refund, traceparent }: RefundPosting,
): Promise<RefundOutcome | 'made' | 'unfinished'> {
  const made = await tx.query(sql.postRefund, [
    refund.txnId,
    refund.partnerId,
    refund.key,
    refund.fingerprint,
    refund.responseVersion,
    refund.paymentId,
    refund.details.amount ?? null,
    detailsText(otherRefundDetails(refund)),
    refund.acceptedAt,
    traceparent,
    ownMs,
    refund.kind,
  ]);
  if (made.length > 0) return 'made';
  const [row] = await readStates(tx, [refund.txnId]);
  if (row === undefined)
    throw new Error(`the key of refund ${refund.txnId} is stored under another id`);
  if (row.fingerprint !== refund.fingerprint) {
    return { outcome: 'key-conflict', winner: row.fingerprint };
  }
  return row.state === 'pending' ? 'unfinished' : { outcome: 'already-recorded', state: row.state };
}

/** Settles a refund by `Refunds.settle`'s contract, in the transaction that it is given. */
async function settleRefund(tx: Queryable, request: SettleRefundRequest): Promise<SettleOutcome> {
  const { txnId, traceparent, settledAt, payment } = request;
  refuseBadEnd(request.result, request.refundId);
  const parameters = settleParameters(request, request.refundId);
  const [settled] = await tx.query<SettledRow>(sql.settleRefund, parameters);
  if (settled === undefined) return { outcome: 'stale' };
  const refund = await findRefund(tx, txnId);
  if (refund === undefined) throw new Error(`refund ${txnId} was settled and cannot be found`);
  // Without a payment of this partner, the refund's one event is an order of its own.
  const order =
    settled.sequence === null
      ? { orderedBy: txnId, sequence: 1 }
      : { orderedBy: refund.paymentId, sequence: settled.sequence };
  const event = refundEventOf({ refund, ...order });
  await appendSettlement(tx, { event, traceparent, entry: refundMovement(refund) });
  if (payment === undefined || settled.version === null) return { outcome: 'settled' };
  const { version } = settled;
  const end = { txnId: refund.paymentId, version, settledAt, traceparent, ...payment };
  const ended = await settleIn(tx, end);
  // It was this one's, and its row is locked.
  if (ended.outcome === 'stale') throw new Error(`payment ${refund.paymentId} ended otherwise`);
  return ended;
}

type SettledRow = { sequence: number | null; version: number | null };
