import { followUpEventOf } from '@triplock/contracts';
import { loadStatements, type Database, type Queryable } from '@triplock/postgres';
import type { SettleOutcome, StoreIntentOutcome } from '../ledger.ts';
import { followUpMovement, refuseBadEnd, refuseBadTexts } from '../outcomes.ts';
import {
  resultOf,
  type FollowUpDecision,
  type FollowUpEnd,
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
  'reserveRemembered',
  'dueNow',
  'lockPayment',
  'noteGivenBack',
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
    recall: (request) => recall(database, request),
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
  const judged = await judge(tx, posting.followUp);
  const followUp = await findFollowUp(tx, txnId);
  if (followUp === undefined) throw new Error(`refund ${txnId} was posted and cannot be found`);
  // Another worker made it final while this one waited for its row.
  if (judged === undefined) return { outcome: 'already-recorded', state: followUp.state };
  const { decision } = judged;
  if (decision === 'unasked') {
    await tx.query(sql.dueNow, [txnId]);
    return { outcome: 'unasked', paymentId: followUp.paymentId };
  }
  if (decision === 'waiting') return { outcome: 'waiting' };
  if (decision === 'reserved' && followUp.provider !== undefined) {
    const outcome = row === 'made' ? 'reserved' : 'unfinished';
    return { outcome, followUp: followUp as ReservedFollowUp };
  }
  const result = endOf(judged);
  const { traceparent, settledAt } = posting;
  const request = { txnId, version: followUp.version, result, settledAt, traceparent };
  const settled = await settleFollowUp(tx, request);
  // The row is locked since it was judged, so nobody else can have changed it.
  if (settled.outcome === 'stale') throw new Error(`refund ${txnId} changed under its lock`);
  return { outcome: 'settled', state: result.state };
}

/** What looking at the payment came to, also after the ledger was set back. */
type Judged = {
  decision:
    | FollowUpDecision
    /** The provider has to be asked what was given back before. */
    | 'unasked'
    /** Something is known of that, and decides. */
    | 'remembered'
    /** It failed before, for this reason. */
    | 'failed';
  code?: string | null;
  message?: string | null;
};

/** Reserves it on its payment, or says why not; nothing when it is final. */
async function judge(
  tx: Queryable,
  { kind, txnId }: FollowUpPosting['followUp'],
): Promise<Judged | undefined> {
  if (kind !== 'refund') return (await tx.query<Judged>(sql.reserveClosing, [txnId]))[0];
  const [judged] = await tx.query<Judged>(sql.reserveRefund, [txnId]);
  if (judged?.decision !== 'remembered') return judged;
  return (await tx.query<Judged>(sql.reserveRemembered, [txnId]))[0];
}

/** The end of one that no provider has to be asked for. */
function endOf({ decision, code, message }: Judged): FollowUpEnd {
  if (decision === 'failed') {
    return { state: 'failed', failure: { code: code ?? '', message: message ?? '' } };
  }
  if (decision === 'waiting' || decision === 'unasked' || decision === 'remembered') {
    throw new Error(`a refund that is ${decision} has no end`);
  }
  return resultOf(decision);
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

/** Notes what the provider shows of a payment, by `FollowUps.recall`'s contract. */
function recall(
  database: Database,
  { paymentId, refunds }: Parameters<NonNullable<FollowUps['recall']>>[0],
): Promise<void> {
  return database.transaction(async (tx) => {
    await tx.query(sql.lockPayment, [paymentId]);
    const shown = refunds.map(({ txnId, amount, failure }) => {
      return { txnId, amount, code: failure?.code ?? null, message: failure?.message ?? null };
    });
    await tx.query(sql.noteGivenBack, [
      paymentId,
      shown.map(({ txnId }) => txnId),
      shown.map(({ amount }) => amount),
      shown.map(({ code }) => code),
      shown.map(({ message }) => message),
    ]);
  });
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
