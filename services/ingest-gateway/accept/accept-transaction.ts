import type { ClaimOutcome, ClaimOwner, ClaimRequest, Cold, FirstClaim } from '@triplock/claims';
import type { AcceptedAnswer, EncodedRecord, FieldProblem } from '@triplock/contracts';
import type { PartnerId } from '@triplock/payments';
import {
  annotateSpan,
  carriedTraceparent,
  DeadlineError,
  inSpan,
  withDeadline,
  type TimeBudget,
} from '@triplock/runtime';
import type { Gateway } from '../gateway.ts';
import { findImpossible } from './find-impossible.ts';
import { findRefundable } from './find-transaction.ts';
import {
  claimOf,
  encodeAccepted,
  findPosted,
  recordKeyOf,
  renderAnswer,
  type Order,
  type Posted,
  type Transaction,
} from './transaction.ts';

/** What accepting came to. */
export type AcceptOutcome =
  /** It is durable in the topic, by this request. */
  | { outcome: 'accepted'; answer: AcceptedAnswer }
  /** It was accepted before: the same answer, byte for byte, and no effect. */
  | { outcome: 'replayed'; answer: AcceptedAnswer }
  /** The key belongs to another request. */
  | { outcome: 'reused' }
  /** The same request is at work. */
  | { outcome: 'in-flight' }
  /**
   * A refund, capture or cancellation of a payment that is not the partner's; no key is used up.
   */
  | { outcome: 'not-found' }
  /** What was asked for can never be had of its payment; no key is used up. */
  | { outcome: 'impossible'; errors: readonly FieldProblem[] }
  /** Its partner holds as many keys, or as many bytes, as it may; nothing was done. */
  | { outcome: 'over-limit'; retryAfterMs: number }
  /** The claims were lost and the ledger has not caught up with what was accepted before. */
  | { outcome: 'cold' }
  /** Something did not answer in time. Whether it was accepted is unknown. */
  | { outcome: 'unavailable'; error: unknown };

/**
 * Accepts a transaction at most once per key: claim, append to the topic, complete the claim,
 * answer. It always returns an outcome, within the request's budget and the 200 ms that releasing
 * the claim may take.
 *
 * A crash after the claim leaves only the claim: retries get 409 until its lease ends, and then one
 * takes over. A crash after the append leaves a durable record that will be posted; the retry that
 * takes over appends a second copy, which guard 2 absorbs. After the completion, a retry gets the
 * same answer: it is a function of the request, and the retry is that request, to the fingerprint.
 */
export async function acceptTransaction(gateway: Gateway, order: Order): Promise<AcceptOutcome> {
  const { transaction, budget } = order;
  if ('paymentId' in transaction) {
    // Whose payment it is comes before the claim, so that a wrong payment id uses up no key.
    const asked = findRefundable(gateway, transaction);
    const found = await budget.hold(asked, 'finding the payment').catch(unavailable);
    if (found.outcome !== 'own') return found;
    const wrong = await findImpossible(gateway, { ...order, transaction });
    if (wrong !== undefined) return { outcome: 'impossible', errors: [wrong] };
  }
  const claiming = inSpan({ name: 'claim' }, () => claimTransaction(gateway, order));
  const claim = await claiming.catch(unavailable);
  annotateSpan({ 'triplock.guard.claim': claim.outcome });
  switch (claim.outcome) {
    case 'claimed':
      return append(
        gateway,
        { ...order, transaction: asFirstClaimed(transaction, claim) },
        { txnId: transaction.txnId, token: claim.token },
      );
    case 'completed':
      return replay(asFirstClaimed(transaction, claim));
    case 'posted':
      return replay(claim.posted);
    case 'catching-up':
      return { outcome: 'cold' };
    case 'reused':
    case 'in-flight':
    case 'over-limit':
    case 'unavailable':
      return claim;
    default:
      return claim satisfies never;
  }
}

/**
 * Time and form are those of the first claim, whoever took over: so all copies of the record agree,
 * and all answers to the request are the same bytes.
 */
function asFirstClaimed(
  transaction: Transaction,
  { acceptedAt, responseVersion }: FirstClaim,
): Transaction {
  return { ...transaction, acceptedAt, responseVersion };
}

/**
 * The answer that was given before. While a newer release is rolled out, or after it was taken
 * back, this gateway may not know the form of an answer that a newer one gave: then it answers 503,
 * and the retry finds one that does. It never answers in another form.
 */
function replay(accepted: Transaction | Posted): AcceptOutcome {
  try {
    return { outcome: 'replayed', answer: renderAnswer(accepted) };
  } catch (error) {
    return unavailable(error);
  }
}

/** What a claim comes to once a cold bucket has been asked about elsewhere. */
type DecidedClaim =
  | Exclude<ClaimOutcome, Cold>
  /** The claim was lost, and the ledger's row is the proof that the request was accepted. */
  | { outcome: 'posted'; posted: Posted }
  /** Its partner holds as many keys, or as many bytes, as it may; nothing was done. */
  | { outcome: 'over-limit'; retryAfterMs: number }
  /** The claims were lost and the ledger has not caught up: nobody knows yet. */
  | { outcome: 'catching-up' };

/**
 * Claims a payment or refund. While the bucket is cold the ledger answers for it: a row there is
 * the proof that the key was used; no row proves something only after the barrier, and then the
 * claim is made on the ledger's answer. Whether there is one is asked for many at once; the row is
 * read for whom there is one, which few are.
 *
 * @throws when the claim store, or while cold Kafka or the ledger, does not answer in time.
 */
async function claimTransaction(
  gateway: Gateway,
  { transaction, budget }: { transaction: Transaction; budget: TimeBudget },
): Promise<DecidedClaim> {
  const { txnId, fingerprint } = transaction;
  const request = claimOf(transaction);
  const ids = { txnId, recordKey: recordKeyOf(transaction) };
  const first =
    (await claimReadBack(gateway, { request, budget })) ??
    (await claimKnownCold(gateway, { request, budget })) ??
    (await claimInTime(gateway, request, budget));
  if (first.outcome !== 'cold') return first;

  gateway.readBack.metCold();
  const checking = gateway.recovery.checkBarrier(ids, first);
  const { epoch, caughtUp } = await budget.hold(checking, 'recovering the claims');
  if (await budget.hold(gateway.questions.isPosted(transaction), 'the ledger')) {
    const posted = await budget.hold(findPosted(gateway, transaction), 'the ledger');
    // What is posted stays so: this is another server, which lacks what the one before it had.
    if (posted === undefined) return { outcome: 'catching-up' };
    if (posted.fingerprint !== fingerprint) return { outcome: 'reused' };
    return { outcome: 'posted', posted };
  }
  if (!caughtUp) return { outcome: 'catching-up' };

  const second = await claimInTime(gateway, { ...request, ledgerCheckedIn: epoch }, budget);
  // Cold again: the claims were lost once more since the epoch was noted.
  return second.outcome === 'cold' ? { outcome: 'catching-up' } : second;
}

/**
 * Of a key that is proven to be new, because the ledger was read back after the loss and does not
 * have it, nobody is asked: it is claimed in the epoch in which that counts, once. Whatever was
 * claimed since the loss, and whether the bucket is warm or was lost again, the claim says.
 */
async function claimReadBack(
  gateway: Gateway,
  { request, budget }: { request: ClaimRequest; budget: TimeBudget },
): Promise<ClaimOutcome | undefined> {
  const ledgerCheckedIn = gateway.readBack.provenNew(request.txnId);
  if (ledgerCheckedIn === undefined) return undefined;
  return claimInTime(gateway, { ...request, ledgerCheckedIn }, budget);
}

/**
 * Of a bucket that was cold a moment ago the ledger is asked first, so that a new key is claimed
 * once and not twice. It is the same proof in the same order: the barrier was passed, then the
 * ledger was asked, and the claim holds in that epoch alone.
 *
 * Nothing where the bucket is not known to be cold, where the key is posted, or where the ledger
 * does not answer at once: what was claimed since the loss needs no ledger, and the claim says so.
 */
async function claimKnownCold(
  gateway: Gateway,
  { request, budget }: { request: ClaimRequest; budget: TimeBudget },
): Promise<ClaimOutcome | undefined> {
  const { recovery, questions } = gateway;
  const epoch = recovery.recentEpoch(request);
  if (epoch === undefined) return undefined;
  const isPosted = await budget.hold(questions.isPostedSoon(request), 'the ledger');
  if (isPosted !== false) return undefined;
  return claimInTime(gateway, { ...request, ledgerCheckedIn: epoch }, budget);
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
  { claims, metrics, backlogs }: Gateway,
  request: ClaimRequest,
): Promise<ClaimOutcome> {
  const startedMs = performance.now();
  const leave = backlogs.claims.enter(request.partnerId);
  try {
    const answer = await claims.claim(request);
    metrics.claims.count(answer.outcome);
    return answer;
  } catch (error) {
    metrics.claims.count('unavailable');
    throw error;
  } finally {
    leave();
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

async function append(gateway: Gateway, order: Order, owner: ClaimOwner): Promise<AcceptOutcome> {
  const { transaction, traceparent, budget } = order;
  const { crashPoints } = gateway;
  try {
    const answer = renderAnswer(transaction);
    const record = encodeAccepted(transaction, carriedTraceparent(traceparent));
    await crashPoints.reached('gateway.claimed');
    // A process that stood still: by now it may be said that nothing was accepted (find-key.ts).
    budget.require('the append');
    await budget.hold(
      measuredAppend(gateway, { record, partnerId: transaction.partnerId }),
      'Kafka',
    );
    await completeClaim(gateway, order, owner);
    return { outcome: 'accepted', answer };
  } catch (error) {
    // Refused or unknown: either way the record may be appended again by whoever retries, because
    // guard 2 absorbs a second copy. So nobody has to wait for the lease.
    await release(gateway, owner, order);
    return unavailable(error);
  }
}

/** One append, timed by how it ended. */
async function measuredAppend(
  { log, backlogs, metrics }: Gateway,
  { record, partnerId }: { record: EncodedRecord; partnerId: PartnerId },
): Promise<void> {
  const leave = backlogs.appends.enter(partnerId);
  const append = () => log.append(record);
  await metrics.appendSeconds.time(append, () => 'appended', 'failed').finally(leave);
}

/**
 * The record is durable and its answer a function of the request: whatever goes wrong from here on,
 * it is accepted. A retry then takes over, appends a second copy and gives the same answer.
 */
async function completeClaim(gateway: Gateway, order: Order, owner: ClaimOwner): Promise<void> {
  const { claims, crashPoints, logger, unposted } = gateway;
  const { txnId } = owner;
  const { requestId } = order;
  try {
    unposted.add(order.transaction);
    await crashPoints.reached('gateway.produced');
    const completing = claims.complete(owner);
    const completed = await order.budget.hold(completing, 'completing the claim');
    if (completed === 'lost') await claimAgain(gateway, order);
    await crashPoints.reached('gateway.completed');
  } catch (error) {
    const line = { err: error, txnId, requestId };
    logger.warn(line, 'the claim was not completed, the acceptance stands');
  }
}

/**
 * The claim was lost while its record was under way, or has a new owner. No barrier covers such a
 * record, so until it is posted neither store would know of what is about to be answered: it is
 * claimed in the epoch that it is now. The barrier of a loss after this covers the record.
 */
async function claimAgain(gateway: Gateway, order: Order): Promise<void> {
  const { transaction, budget, requestId } = order;
  const { claims, recovery, logger } = gateway;
  const { txnId } = transaction;
  const request = claimOf(transaction);
  let claim = await claimInTime(gateway, request, budget);
  if (claim.outcome === 'cold') {
    const checking = recovery.checkBarrier({ txnId, recordKey: recordKeyOf(transaction) }, claim);
    const { epoch } = await budget.hold(checking, 'recovering the claims');
    claim = await claimInTime(gateway, { ...request, ledgerCheckedIn: epoch }, budget);
  }
  if (claim.outcome === 'claimed') {
    const owner = { txnId, token: claim.token };
    await budget.hold(claims.complete(owner), 'completing the claim');
  }
  const line = { txnId, outcome: claim.outcome, requestId };
  logger.warn(line, 'the claim was lost or taken over under way');
}

// A release is one round trip. What takes longer meets a claim store in trouble, and the caller
// has waited long enough.
const releaseMs = 200;

async function release(
  { claims, logger }: Gateway,
  owner: ClaimOwner,
  { requestId }: Order,
): Promise<void> {
  try {
    await withDeadline(claims.release(owner), { ms: releaseMs, what: 'releasing the claim' });
  } catch (error) {
    const line = { err: error, txnId: owner.txnId, requestId };
    logger.warn(line, 'the claim may be held until its lease ends');
  }
}

function unavailable(error: unknown): { outcome: 'unavailable'; error: unknown } {
  return { outcome: 'unavailable', error };
}
