import type { ClaimOutcome, ClaimRequest, Claims, Cold } from '@triplock/claims';
import { DeadlineError } from '@triplock/runtime';
import type { LossRecovery } from './loss-recovery.ts';
import type { TimeBudget } from '../http/time-budget.ts';
import type { AcceptedTransaction, AcceptForm } from './transaction-form.ts';

/** What claiming stands on. */
export type ClaimParts<Accepted extends AcceptedTransaction> = {
  claims: Pick<Claims, 'claim' | 'release'>;
  form: Pick<AcceptForm<Accepted>, 'find' | 'renderAccepted' | 'renderPending'>;
  recovery: LossRecovery;
};

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
export async function claimTransaction<Accepted extends AcceptedTransaction>(
  { claims, form, recovery }: ClaimParts<Accepted>,
  { transaction, budget }: { transaction: Accepted; budget: TimeBudget },
): Promise<DecidedClaim> {
  const { txnId, partnerId, fingerprint, acceptedAt } = transaction;
  const shown = JSON.stringify(form.renderPending(transaction));
  const request = { txnId, partnerId, fingerprint, acceptedAt, shown };
  const first = await claimInTime(claims, { request, budget });
  if (first.outcome !== 'cold') return first;

  const checking = recovery.checkBarrier(txnId, first);
  const { epoch, caughtUp } = await budget.hold(checking, 'recovering the claims');
  const posted = await budget.hold(form.find(txnId), 'the ledger');
  if (posted !== undefined) {
    if (posted.fingerprint !== fingerprint) return { outcome: 'reused' };
    // The row makes the same bytes as the claim would have kept.
    return { outcome: 'completed', answer: form.renderAccepted(posted) };
  }
  if (!caughtUp) return { outcome: 'catching-up' };

  const checked = { ...request, ledgerCheckedIn: epoch };
  const second = await claimInTime(claims, { request: checked, budget });
  // Cold again: the claims were lost once more since the epoch was noted.
  return second.outcome === 'cold' ? { outcome: 'catching-up' } : second;
}

type LettingGo = Pick<Claims, 'claim' | 'release'>;

/** A claim that comes when the request was already answered is let go: nobody works on it. */
async function claimInTime(
  claims: LettingGo,
  { request, budget }: { request: ClaimRequest; budget: TimeBudget },
): Promise<ClaimOutcome> {
  const claiming = claims.claim(request);
  try {
    return await budget.hold(claiming, 'claiming');
  } catch (error) {
    if (error instanceof DeadlineError) void letGoLate(claims, { request, claiming });
    throw error;
  }
}

async function letGoLate(
  claims: LettingGo,
  { request, claiming }: { request: ClaimRequest; claiming: Promise<ClaimOutcome> },
): Promise<void> {
  try {
    const late = await claiming;
    if (late.outcome === 'claimed') await claims.release({ ...request, token: late.token });
  } catch {
    // Without an answer the store itself lets go, of the claim as of the release, or the lease
    // ends.
  }
}
