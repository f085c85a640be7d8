import type { ClaimOwner, Claims } from '@triplock/claims';
import { encodePaymentAccepted, renderAccepted, type StoredAnswer } from '@triplock/contracts';
import type { AcceptedPayment } from '@triplock/payments';
import { withDeadline, type CrashPoints, type Logger } from '@triplock/runtime';
import type { GroupCommit } from '@triplock/transport';
import { claimPayment, type ClaimParts } from './claim-payment.ts';
import type { TimeBudget } from './time-budget.ts';

/** What accepting stands on. */
export type AcceptParts = ClaimParts & {
  claims: Pick<Claims, 'claim' | 'complete' | 'release'>;
  log: Pick<GroupCommit, 'append'>;
  crashPoints: Pick<CrashPoints, 'reached'>;
  logger: Logger;
};

/** An authenticated and valid request for a payment. */
export type PaymentOrder = { payment: AcceptedPayment; traceparent: string; budget: TimeBudget };

/** What accepting came to. */
export type AcceptOutcome =
  /** It is durable in the topic, by this request. */
  | { outcome: 'accepted'; answer: StoredAnswer }
  /** It was accepted before: the same answer, byte for byte, and no effect. */
  | { outcome: 'replayed'; answer: StoredAnswer }
  /** The key belongs to another request. */
  | { outcome: 'reused' }
  /** The same request is at work. */
  | { outcome: 'in-flight' }
  /** The claims were lost and the ledger has not caught up with what was accepted before. */
  | { outcome: 'cold' }
  /** Something did not answer in time. Whether the payment was accepted is unknown. */
  | { outcome: 'unavailable'; error: unknown };

/**
 * Accepts a payment at most once per key: claim, append to the topic, complete the claim, answer.
 * Always gives an outcome within the request's budget and the 200 ms that letting go may take.
 */
export async function acceptPayment(
  parts: AcceptParts,
  order: PaymentOrder,
): Promise<AcceptOutcome> {
  const claim = await claimPayment(parts, order).catch(unavailable);
  switch (claim.outcome) {
    case 'claimed':
      // A takeover goes on with the time of the first claim, so that every copy says the same.
      return append(parts, {
        ...order,
        payment: { ...order.payment, acceptedAt: claim.acceptedAt },
        owner: { txnId: order.payment.txnId, token: claim.token },
      });
    case 'completed':
      return { outcome: 'replayed', answer: claim.answer };
    case 'catching-up':
      return { outcome: 'cold' };
    case 'reused':
    case 'in-flight':
    case 'unavailable':
      return claim;
  }
}

type OwnedOrder = PaymentOrder & { owner: ClaimOwner };

async function append(parts: AcceptParts, order: OwnedOrder): Promise<AcceptOutcome> {
  try {
    const answer = renderAccepted(order.payment);
    const record = encodePaymentAccepted(order.payment, order.traceparent);
    await parts.crashPoints.reached('gateway.claimed');
    await order.budget.hold(parts.log.append(record), 'Kafka');
    await keepAnswer(parts, order, answer);
    return { outcome: 'accepted', answer };
  } catch (error) {
    // Refused or unknown: either way the record may be appended again by whoever retries, because
    // guard 2 absorbs a second copy. So nobody has to wait for the lease.
    await letGo(parts, order.owner);
    return unavailable(error);
  }
}

/**
 * The payment is durable and its answer a function of the request: nothing that goes wrong from
 * here on makes it less accepted. A retry then takes over, appends a second copy and answers alike.
 */
async function keepAnswer(
  { claims, crashPoints, logger }: AcceptParts,
  { owner, budget }: OwnedOrder,
  answer: StoredAnswer,
): Promise<void> {
  try {
    await crashPoints.reached('gateway.produced');
    const kept = await budget.hold(claims.complete(owner, answer), 'completing the claim');
    if (kept === 'lost') logger.warn({ txnId: owner.txnId }, 'the claim had a new owner already');
    await crashPoints.reached('gateway.completed');
  } catch (error) {
    logger.warn({ err: error, txnId: owner.txnId }, 'the answer was not kept, the payment stands');
  }
}

// A release is one round trip. What takes longer meets a claim store in trouble, and the caller
// has waited long enough.
const releaseMs = 200;

async function letGo({ claims, logger }: AcceptParts, owner: ClaimOwner): Promise<void> {
  try {
    await withDeadline(claims.release(owner), { ms: releaseMs, what: 'releasing the claim' });
  } catch (error) {
    logger.warn({ err: error, txnId: owner.txnId }, 'the claim may be held until its lease ends');
  }
}

function unavailable(error: unknown): { outcome: 'unavailable'; error: unknown } {
  return { outcome: 'unavailable', error };
}
