import type { Fingerprint, TransactionState } from '@triplock/payments';
import { loadSql, type Queryable } from '@triplock/postgres';
import { resultOf, type Verdict } from '../refund-verdict.ts';
import type { RefundOutcome, RefundPosting, ReservedRefund } from '../refunds.ts';
import { findRefund } from './find-refund.ts';
import { ownMs } from '../own-time.ts';
import { settleRefund } from './settle-refund.ts';

const postSql = loadSql(import.meta.url, 'post-refund.sql');
const classifySql = loadSql(import.meta.url, 'classify.sql');
const reserveSql = loadSql(import.meta.url, 'reserve-refund.sql');

/** Posts a refund by `Refunds.post`'s contract, in the transaction that it is given. */
export async function postRefund(tx: Queryable, posting: RefundPosting): Promise<RefundOutcome> {
  const { txnId } = posting.refund;
  const standing = await insert(tx, posting);
  if (standing !== 'made' && standing !== 'unfinished') return standing;
  const [judged] = await tx.query<{ verdict: Verdict }>(reserveSql, [txnId]);
  const refund = await findRefund(tx, txnId);
  if (refund === undefined) throw new Error(`refund ${txnId} was posted and cannot be found`);
  // Another worker made it final while this one waited for its row.
  if (judged === undefined) return { outcome: 'already-recorded', state: refund.state };
  if (judged.verdict === 'waiting') return { outcome: 'waiting' };
  if (judged.verdict === 'reserved' && refund.provider !== undefined) {
    const outcome = standing === 'made' ? 'reserved' : 'unfinished';
    return { outcome, refund: refund as ReservedRefund };
  }
  const result = resultOf(judged.verdict);
  const { traceparent, settledAt } = posting;
  const request = { txnId, version: refund.version, result, settledAt, traceparent };
  const settled = await settleRefund(tx, request);
  // The row is locked since it was judged, so nobody else can have changed it.
  if (settled.outcome === 'stale') throw new Error(`refund ${txnId} changed under its lock`);
  return { outcome: 'settled', state: result.state };
}

/** Makes the row, or says what stands in its place. */
async function insert(
  tx: Queryable,
  { refund, traceparent }: RefundPosting,
): Promise<RefundOutcome | 'made' | 'unfinished'> {
  const made = await tx.query(postSql, [
    refund.txnId,
    refund.partnerId,
    refund.key,
    refund.fingerprint,
    refund.responseVersion,
    refund.paymentId,
    refund.details.amount ?? null,
    refund.details.reason ?? null,
    refund.acceptedAt,
    traceparent,
    ownMs,
  ]);
  if (made.length > 0) return 'made';
  const [row] = await tx.query<{ fingerprint: Fingerprint; state: TransactionState }>(classifySql, [
    [refund.txnId],
  ]);
  if (row === undefined)
    throw new Error(`the key of refund ${refund.txnId} is stored under another id`);
  if (row.fingerprint !== refund.fingerprint) {
    return { outcome: 'key-conflict', winner: row.fingerprint };
  }
  return row.state === 'pending' ? 'unfinished' : { outcome: 'already-recorded', state: row.state };
}
