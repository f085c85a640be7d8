import type { ClaimOutcome, ClaimRequest, Cold } from '@triplock/claims';
import { DeadlineError, type TimeBudget } from '@triplock/runtime';
import type { Gateway } from '../gateway.ts';
import { findPosted, renderAnswer, renderUnposted, type Transaction } from './transaction.ts';

/** What a claim comes to once a cold bucket has been asked about elsewhere. */
export type DecidedClaim =
  | Exclude<ClaimOutcome, Cold>
  /** The claims were lost and the ledger has not caught up: nobody knows yet. */
  | { outcome: 'catching-up' };

/**
 * Claims a payment or refund. While the bucket is cold the ledger answers for it: a row there is
 * the proof that the key was used; no row proves something only after the barrier, and then the
 * claim is made on the ledger's answer.
 *
 * @throws when the claim store, or while cold Kafka or the ledger, does not answer in time.
 */
export async function claimTransaction(
  gateway: Gateway,
  { transaction, budget }: { transaction: Transaction; budget: TimeBudget },
): Promise<DecidedClaim> {
  const { txnId, partnerId, fingerprint, acceptedAt } = transaction;
  const shown = JSON.stringify(renderUnposted(transaction));
  const request = { txnId, partnerId, fingerprint, acceptedAt, shown };
  const first = await claimInTime(gateway, request, budget);
  if (first.outcome !== 'cold') return first;

  gateway.metrics.metCold();
  const checking = gateway.recovery.checkBarrier(txnId, first);
  const { epoch, caughtUp } = await budget.hold(checking, 'recovering the claims');
  const posted = await budget.hold(findPosted(gateway, transaction), 'the ledger');
  if (posted !== undefined) {
    if (posted.fingerprint !== fingerprint) return { outcome: 'reused' };
    // The row makes the same bytes as the claim would have kept.
    return { outcome: 'completed', answer: renderAnswer(posted) };
  }
  if (!caughtUp) return { outcome: 'catching-up' };

  const second = await claimInTime(gateway, { ...request, ledgerCheckedIn: epoch }, budget);
  // Cold again: the claims were lost once more since the epoch was noted.
  return second.outcome === 'cold' ? { outcome: 'catching-up' } : second;
}

/** A claim that comes when the request was already answered is released: nobody works on it. */
async function claimInTime(
  gateway: Gateway,
  request: ClaimRequest,
  budget: TimeBudget,
): Promise<ClaimOutcome> {
  const claiming = measuredClaim(gateway, request);
  try {
    return await budget.hold(claiming, 'claiming');
  } catch (error) {
    if (error instanceof DeadlineError) void releaseLate(gateway, request, claiming);
    throw error;
  }
}

/** One claim, timed and counted by its answer. */
async function measuredClaim(
  { claims, metrics }: Gateway,
  request: ClaimRequest,
): Promise<ClaimOutcome> {
  const startedMs = performance.now();
  try {
    const answer = await claims.claim(request);
    metrics.claims.count(answer.outcome);
    return answer;
  } catch (error) {
    metrics.claims.count('unavailable');
    throw error;
  } finally {
    metrics.claimSeconds.observe((performance.now() - startedMs) / 1_000);
  }
}

async function releaseLate(
  { claims }: Gateway,
  request: ClaimRequest,
  claiming: Promise<ClaimOutcome>,
): Promise<void> {
  try {
    const late = await claiming;
    if (late.outcome === 'claimed') await claims.release({ ...request, token: late.token });
  } catch {
    // Without an answer the store itself releases the claim, or its lease ends.
  }
}
