import { followUpEventOf } from '@triplock/contracts';
import { loadStatements, type Database, type Queryable } from '@triplock/postgres';
import type { SettleOutcome, StoreIntentOutcome } from '../ledger.ts';
import { followUpMovement, refuseBadEnd, refuseBadTexts } from '../outcomes.ts';
import {
  resultOf,
  type FollowUpDecision,
  type FollowUpOutcome,
  type FollowUpPosting,
} from '../follow-ups.ts';
import type {
  FollowUps,
  ReservedFollowUp,
  SettleFollowUpRequest,
  StoreRefundIdRequest,
} from '../follow-ups.ts';
import { detailsText, otherFollowUpDetails } from '../rows.ts';
import { ownMs } from '../unfinished.ts';
import { settleIn } from './payments.ts';
import {
  appendSettlement,
  blamingInput,
  recordFollowUpConflict,
  settleParameters,
} from './settlement.ts';
import { findFollowUp, listRefunds, readStates } from './transactions.ts';

const sql = loadStatements(import.meta.url, 'follow-ups.sql', [
  'postFollowUp',
  'reserveRefund',
  'reserveClosing',
  'settleFollowUp',
  'storeRefundId',
]);

/**
 * Refunds in PostgreSQL, schema `ledger`. Writing needs the role `triplock_ledger`; `find` and
 * `listOf` need only to read `ledger.transactions`. The pool stays the caller's to close.
 */
export function openPostgresFollowUps(database: Database): FollowUps {
  return {
    post: (posting) => blamingInput(() => database.transaction((tx) => postFollowUp(tx, posting))),
    settle: (request) =>
      blamingInput(() => database.transaction((tx) => settleFollowUp(tx, request))),
    storeRefundId: (request) => storeRefundId(database, request),
    recordKeyConflict: (posting) => recordFollowUpConflict(database, posting),
    find: (txnId) => findFollowUp(database, txnId),
    listOf: (request) => listRefunds(database, request),
  };
}

/** Posts a refund by `FollowUps.post`'s contract, in the transaction that it is given. */
async function postFollowUp(tx: Queryable, posting: FollowUpPosting): Promise<FollowUpOutcome> {
  const { txnId } = posting.followUp;
  const row = await insert(tx, posting);
  if (row !== 'made' && row !== 'unfinished') return row;
  const reserve = posting.followUp.kind === 'refund' ? sql.reserveRefund : sql.reserveClosing;
  const [judged] = await tx.query<{ decision: FollowUpDecision }>(reserve, [txnId]);
  const followUp = await findFollowUp(tx, txnId);
  if (followUp === undefined) throw new Error(`refund ${txnId} was posted and cannot be found`);
  // Another worker made it final while this one waited for its row.
  if (judged === undefined) return { outcome: 'already-recorded', state: followUp.state };
  if (judged.decision === 'waiting') return { outcome: 'waiting' };
  if (judged.decision === 'reserved' && followUp.provider !== undefined) {
    const outcome = row === 'made' ? 'reserved' : 'unfinished';
    return { outcome, followUp: followUp as ReservedFollowUp };
  }
  const result = resultOf(judged.decision);
  const { traceparent, settledAt } = posting;
  const request = { txnId, version: followUp.version, result, settledAt, traceparent };
  const settled = await settleFollowUp(tx, request);
  // The row is locked since it was judged, so nobody else can have changed it.
  if (settled.outcome === 'stale') throw new Error(`refund ${txnId} changed under its lock`);
  return { outcome: 'settled', state: result.state };
}

/** Makes the row, or says what is under its id already. */
async function insert(
  tx: Queryable,
  { followUp, traceparent }: FollowUpPosting,
): Promise<FollowUpOutcome | 'made' | 'unfinished'> {
  const made = await tx.query(sql.postFollowUp, [
    followUp.txnId,
    followUp.partnerId,
    followUp.key,
    followUp.fingerprint,
    followUp.responseVersion,
    followUp.paymentId,
    followUp.details.amount ?? null,
    detailsText(otherFollowUpDetails(followUp)),
    followUp.acceptedAt,
    traceparent,
    ownMs,
    followUp.kind,
  ]);
  if (made.length > 0) return 'made';
  const [row] = await readStates(tx, [followUp.txnId]);
  if (row === undefined)
    throw new Error(`the key of refund ${followUp.txnId} is stored under another id`);
  if (row.fingerprint !== followUp.fingerprint) {
    return { outcome: 'key-conflict', winner: row.fingerprint };
  }
  return row.state === 'pending' ? 'unfinished' : { outcome: 'already-recorded', state: row.state };
}

/** Settles a refund by `FollowUps.settle`'s contract, in the transaction that it is given. */
async function settleFollowUp(
  tx: Queryable,
  request: SettleFollowUpRequest,
): Promise<SettleOutcome> {
  const { txnId, traceparent, settledAt, payment } = request;
  refuseBadEnd(request.result, request.refundId);
  const parameters = settleParameters(request, request.refundId);
  const [settled] = await tx.query<SettledRow>(sql.settleFollowUp, parameters);
  if (settled === undefined) return { outcome: 'stale' };
  const followUp = await findFollowUp(tx, txnId);
  if (followUp === undefined) throw new Error(`refund ${txnId} was settled and cannot be found`);
  // Without a payment of this partner, the refund's one event is an order of its own.
  const order =
    settled.sequence === null
      ? { orderedBy: txnId, sequence: 1 }
      : { orderedBy: followUp.paymentId, sequence: settled.sequence };
  const event = followUpEventOf({ followUp, ...order });
  await appendSettlement(tx, { event, traceparent, entry: followUpMovement(followUp) });
  if (payment === undefined || settled.version === null) return { outcome: 'settled' };
  const { version } = settled;
  const end = { txnId: followUp.paymentId, version, settledAt, traceparent, ...payment };
  const ended = await settleIn(tx, end);
  // It was this one's, and its row is locked.
  if (ended.outcome === 'stale') throw new Error(`payment ${followUp.paymentId} ended otherwise`);
  return ended;
}

type SettledRow = { sequence: number | null; version: number | null };

/** Stores the provider's id of a refund by `FollowUps.storeRefundId`'s contract. */
async function storeRefundId(
  database: Queryable,
  { txnId, version, refundId }: StoreRefundIdRequest,
): Promise<StoreIntentOutcome> {
  refuseBadTexts([refundId]);
  const parameters = [txnId, version, refundId];
  const [row] = await blamingInput(() =>
    database.query<{ version: number }>(sql.storeRefundId, parameters),
  );
  return row === undefined ? { outcome: 'stale' } : { outcome: 'stored', version: row.version };
}
