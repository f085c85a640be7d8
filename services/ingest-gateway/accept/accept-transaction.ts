import type { ClaimOwner, Claims } from '@triplock/claims';
import type { StoredAnswer } from '@triplock/contracts';
import {
  carriedTraceparent,
  inSpan,
  annotateSpan,
  withDeadline,
  type CrashPoints,
  type Logger,
} from '@triplock/runtime';
import type { GroupCommit } from '@triplock/transport';
import { claimTransaction, type ClaimParts } from './claim-transaction.ts';
import type { TimeBudget } from '../http/time-budget.ts';
import type { AcceptedTransaction, AcceptForm } from './transaction-form.ts';

/** What accepting stands on. */
export type AcceptParts<Accepted extends AcceptedTransaction> = ClaimParts<Accepted> & {
  form: AcceptForm<Accepted>;
  claims: Pick<Claims, 'claim' | 'complete' | 'release'>;
  log: Pick<GroupCommit, 'append'>;
  crashPoints: Pick<CrashPoints, 'reached'>;
  logger: Logger;
};

/** An authenticated and valid request. */
export type Order<Accepted extends AcceptedTransaction> = {
  transaction: Accepted;
  traceparent: string;
  budget: TimeBudget;
};

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
  /** Something did not answer in time. Whether it was accepted is unknown. */
  | { outcome: 'unavailable'; error: unknown };

/**
 * Accepts a payment or refund at most once per key: claim, append to the topic, complete the claim,
 * answer. It always returns an outcome, within the request's budget and the 200 ms that releasing
 * the claim may take.
 *
 * A crash after the claim leaves only the claim: retries get 409 until its lease ends, and then one
 * takes over. A crash after the append leaves a durable record that will be posted; the retry that
 * takes over appends a second copy, which guard 2 absorbs. After the completion, a retry gets the
 * stored answer.
 */
export async function acceptTransaction<Accepted extends AcceptedTransaction>(
  parts: AcceptParts<Accepted>,
  order: Order<Accepted>,
): Promise<AcceptOutcome> {
  const { transaction } = order;
  const claim = await inSpan({ name: 'claim' }, () => claimTransaction(parts, order)).catch(
    unavailable,
  );
  annotateSpan({ 'triplock.guard.claim': claim.outcome });
  switch (claim.outcome) {
    case 'claimed':
      // A takeover keeps the time of the first claim, so that all copies of the record agree.
      return append(parts, {
        ...order,
        transaction: { ...transaction, acceptedAt: claim.acceptedAt },
        owner: { txnId: transaction.txnId, token: claim.token },
      });
    case 'completed':
      return { outcome: 'replayed', answer: claim.answer };
    case 'catching-up':
      return { outcome: 'cold' };
    case 'reused':
    case 'in-flight':
    case 'unavailable':
      return claim;
    default:
      return claim satisfies never;
  }
}

type Owned = { owner: ClaimOwner };

async function append<Accepted extends AcceptedTransaction>(
  parts: AcceptParts<Accepted>,
  order: Order<Accepted> & Owned,
): Promise<AcceptOutcome> {
  const { form } = parts;
  try {
    const answer = form.renderAccepted(order.transaction);
    const record = form.encode(order.transaction, carriedTraceparent(order.traceparent));
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

type KeepParts = Pick<AcceptParts<AcceptedTransaction>, 'claims' | 'crashPoints' | 'logger'>;

/**
 * The record is durable and its answer a function of the request: whatever goes wrong from here on,
 * it is accepted. A retry then takes over, appends a second copy and gives the same answer.
 */
async function keepAnswer(
  { claims, crashPoints, logger }: KeepParts,
  { owner, budget }: Owned & { budget: TimeBudget },
  answer: StoredAnswer,
): Promise<void> {
  try {
    await crashPoints.reached('gateway.produced');
    const kept = await budget.hold(claims.complete(owner, answer), 'completing the claim');
    if (kept === 'lost') logger.warn({ txnId: owner.txnId }, 'the claim already had a new owner');
    await crashPoints.reached('gateway.completed');
  } catch (error) {
    logger.warn(
      { err: error, txnId: owner.txnId },
      'the answer was not stored, the acceptance stands',
    );
  }
}

// A release is one round trip. What takes longer meets a claim store in trouble, and the caller
// has waited long enough.
const releaseMs = 200;

async function letGo({ claims, logger }: KeepParts, owner: ClaimOwner): Promise<void> {
  try {
    await withDeadline(claims.release(owner), { ms: releaseMs, what: 'releasing the claim' });
  } catch (error) {
    logger.warn({ err: error, txnId: owner.txnId }, 'the claim may be held until its lease ends');
  }
}

function unavailable(error: unknown): { outcome: 'unavailable'; error: unknown } {
  return { outcome: 'unavailable', error };
}
