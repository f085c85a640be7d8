import { followUpEventOf } from '@triplock/contracts';
import { closesPayment, type FollowUp } from '@triplock/payments';
import { loadStatements, type Database, type Queryable } from '@triplock/postgres';
import type { SettleOutcome, StoreIntentOutcome } from '../ledger.ts';
import { followUpMovement, refuseBadEnd, refuseBadTexts } from '../outcomes.ts';
import {
  resultOf,
  type FollowUpDecision,
  type FollowUpEnd,
  type FollowUpOutcome,
  type FollowUpPosting,
  type FollowUps,
  type ReservedFollowUp,
  type SettleFollowUpRequest,
  type StoreRefundIdRequest,
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
  'judgeRemembered',
  'lockBoth',
  'dueSoon',
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
  let { judged, followUp } = await look(tx, posting.followUp);
  if (isLocked(judged, followUp)) {
    if (await lockInTime(tx, followUp)) ({ judged, followUp } = await look(tx, posting.followUp));
    if (isLocked(judged, followUp)) {
      await tx.query(sql.dueSoon, [txnId]);
      return { outcome: 'waiting' };
    }
  }
  // Another worker made it final while this one looked at its row.
  if (judged === undefined) return { outcome: 'already-recorded', state: followUp.state };
  const { decision } = judged;
  if (decision === 'unasked') {
    // Once: whoever took it up is to ask now, and while the provider is silent it is due as others.
    if (row === 'made') await tx.query(sql.dueNow, [txnId]);
    return { outcome: 'unasked', paymentId: followUp.paymentId };
  }
  if (decision === 'waiting') return { outcome: 'waiting' };
  const { money, provider } = followUp;
  // What is held is let go of in this transaction, so that nobody sees it held.
  const failure = provider && money && posting.refuse?.(money, provider.name);
  if (decision === 'reserved' && provider !== undefined && failure === undefined) {
    const outcome = row === 'made' ? 'reserved' : 'unfinished';
    return { outcome, followUp: followUp as ReservedFollowUp };
  }
  const result: FollowUpEnd = failure ? { state: 'failed', failure } : endOf(judged);
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
    /** Somebody else has its payment. */
    | 'locked'
    /** The provider has to be asked what was given back before. */
    | 'unasked'
    /** Something is known of that, and decides. */
    | 'remembered'
    /** It failed before, for this reason. */
    | 'failed';
  code?: string | null;
  message?: string | null;
};

/** Judges it, and reads it as it is then. */
async function look(tx: Queryable, posted: FollowUpPosting['followUp']) {
  const judged = await judge(tx, posted);
  const followUp = await findFollowUp(tx, posted.txnId);
  if (followUp === undefined) {
    throw new Error(`refund ${posted.txnId} was posted and cannot be found`);
  }
  return { judged, followUp };
}

/** Whether somebody else has its payment, or the row itself. */
function isLocked(judged: Judged | undefined, { state }: FollowUp): boolean {
  return judged === undefined ? state === 'pending' : judged.decision === 'locked';
}

/**
 * How long one waits for whoever has its row, and for whoever has its payment, milliseconds: longer
 * than a transaction takes that does its work. Those that are posted after it wait for as long,
 * and one that stands still would have them wait until the server ends it.
 */
const lockMs = 200;
const lockNotAvailable = '55P03';

/** Locks it and its payment, if that can be had in time; else it has what it had before. */
async function lockInTime(tx: Queryable, { txnId, paymentId }: FollowUp): Promise<boolean> {
  await tx.query('SAVEPOINT locking');
  await tx.query(`SET LOCAL lock_timeout = ${lockMs}`);
  try {
    await tx.query(sql.lockBoth, [txnId, paymentId]);
  } catch (error) {
    if ((error as { code?: unknown }).code !== lockNotAvailable) throw error;
    await tx.query('ROLLBACK TO SAVEPOINT locking');
    return false;
  }
  await tx.query('SET LOCAL lock_timeout TO DEFAULT');
  return true;
}

/** Reserves it on its payment, or says why not; nothing when it is final, or locked by others. */
async function judge(
  tx: Queryable,
  { kind, txnId }: FollowUpPosting['followUp'],
): Promise<Judged | undefined> {
  if (closesPayment(kind)) return (await tx.query<Judged>(sql.reserveClosing, [txnId]))[0];
  const [judged] = await tx.query<Judged>(sql.reserveRefund, [txnId, null]);
  if (judged?.decision !== 'remembered') return judged;
  const [remembered] = await tx.query<Remembered>(sql.judgeRemembered, [txnId]);
  if (remembered?.decision !== 'fits') return remembered;
  return (await tx.query<Judged>(sql.reserveRefund, [txnId, remembered.amount]))[0];
}

/** What is known from before decides it, and `fits` leaves its amount to be reserved. */
type Remembered = Omit<Judged, 'decision'> &
  ({ decision: Judged['decision'] } | { decision: 'fits'; amount: bigint });

/** The end of one that no provider has to be asked for. */
function endOf({ decision, code, message }: Judged): FollowUpEnd {
  if (decision === 'failed') {
    return { state: 'failed', failure: { code: code ?? '', message: message ?? '' } };
  }
  const isOpen = decision === 'waiting' || decision === 'locked' || decision === 'unasked';
  if (isOpen || decision === 'remembered') {
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
