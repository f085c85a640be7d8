import type { ClaimOutcome, ClaimRequest, Claims, Cold } from '@triplock/claims';
import { renderAccepted, renderPending } from '@triplock/contracts';
import type { Ledger } from '@triplock/ledger';
import type { AcceptedPayment, Fingerprint, Payment } from '@triplock/payments';
import { DeadlineError } from '@triplock/runtime';
import type { Memory } from './recover-memory.ts';
import type { TimeBudget } from './time-budget.ts';

/** What claiming stands on. */
export type ClaimParts = {
  claims: Pick<Claims, 'claim' | 'release'>;
  ledger: Pick<Ledger, 'find'>;
  memory: Memory;
};

/** What a claim comes to once a cold bucket has been asked about elsewhere. */
export type DecidedClaim =
  | Exclude<ClaimOutcome, Cold>
  /** The claims were lost and the ledger has not caught up: nobody knows yet. */
  | { outcome: 'catching-up' };

/**
 * Claims a payment. While the bucket is cold the ledger answers for it: a row there is the proof
 * that the key was used; no row proves something only after the barrier, and then the claim is
 * made with the ledger's word.
 *
 * @throws when the claim store, or while cold Kafka or the ledger, does not answer in time.
 */
export async function claimPayment(
  { claims, ledger, memory }: ClaimParts,
  { payment, budget }: { payment: AcceptedPayment; budget: TimeBudget },
): Promise<DecidedClaim> {
  const request = claimRequest(payment);
  const first = await claimInTime(claims, { request, budget });
  if (first.outcome !== 'cold') return first;

  const recollected = memory.recollect(payment.txnId, first);
  const { epoch, caughtUp } = await budget.hold(recollected, 'recovering the claims');
  const posted = await budget.hold(ledger.find(payment.txnId), 'the ledger');
  if (posted !== undefined) return answerFromLedger(posted, payment.fingerprint);
  if (!caughtUp) return { outcome: 'catching-up' };

  const vouched = { ...request, vouchedIn: epoch };
  const second = await claimInTime(claims, { request: vouched, budget });
  // Cold again: the memory was lost once more since the epoch was noted.
  return second.outcome === 'cold' ? { outcome: 'catching-up' } : second;
}

/** A claim that comes when the request was already answered is let go: nobody works on it. */
async function claimInTime(
  claims: ClaimParts['claims'],
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
  claims: ClaimParts['claims'],
  { request, claiming }: { request: ClaimRequest; claiming: Promise<ClaimOutcome> },
): Promise<void> {
  try {
    const late = await claiming;
    if (late.outcome === 'claimed') await claims.release({ ...request, token: late.token });
  } catch {
    // Without an answer the store itself lets go, of the claim as of the release, or the lease ends.
  }
}

function claimRequest(payment: AcceptedPayment): ClaimRequest {
  const { txnId, partnerId, fingerprint, acceptedAt } = payment;
  const shown = JSON.stringify(renderPending(payment));
  return { txnId, partnerId, fingerprint, acceptedAt, shown };
}

/** The row makes the same bytes as the claim would have kept. */
function answerFromLedger(posted: Payment, fingerprint: Fingerprint): DecidedClaim {
  if (posted.fingerprint !== fingerprint) return { outcome: 'reused' };
  return { outcome: 'completed', answer: renderAccepted(posted) };
}
