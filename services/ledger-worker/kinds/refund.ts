import {
  UnpostableError,
  UnreadableRowError,
  type FollowUpOutcome,
  type FollowUpPosting,
  type ReservedFollowUp,
  type SettleFollowUpRequest,
} from '@triplock/ledger';
import {
  mayBeForgotten,
  whyImmovable,
  type RefundAtProvider,
  type RefundRequest,
} from '@triplock/provider';
import type { FollowUpRecord } from '../batch/posting.ts';
import type { AttemptOutcome, Worker } from '../worker.ts';

/** Payments whose follow-ups are posted side by side: half of the ledger's connections. */
const paymentsMax = 4;

/**
 * What posting one follow-up came to. `unpostable`: no ledger will ever store it; `unreadable`: it
 * is in the ledger already, and its row makes no sense.
 */
export type FollowUpPostResult =
  | FollowUpOutcome
  | { outcome: 'unpostable'; detail: string }
  | { outcome: 'unreadable'; error: UnreadableRowError };

/** A follow-up and what posting it came to. */
export type PostedFollowUp = { followUp: FollowUpRecord; result: FollowUpPostResult };

/**
 * Posts what follows payments, of one payment in the order of the records, so that the first to
 * arrive gets the money. What has to wait for its payment waits as a pending row and holds up
 * nobody but later ones of its payment: it is due as soon as its payment is settled. One whose
 * payment somebody has locked does so too, and is due soon by itself. A crash between two of them
 * leaves posted rows and an offset that is not committed: the redelivered batch finds each row by
 * its key and goes on.
 *
 * @throws in an outage.
 */
export async function postFollowUps(
  worker: Worker,
  followUps: readonly FollowUpRecord[],
): Promise<PostedFollowUp[]> {
  const posted: PostedFollowUp[] = [];
  const post = async ({ posting }: FollowUpRecord): Promise<FollowUpPostResult> => {
    try {
      return await postFollowUp(worker, posting);
    } catch (error) {
      if (error instanceof UnreadableRowError) return { outcome: 'unreadable', error };
      if (!(error instanceof UnpostableError)) throw error;
      return { outcome: 'unpostable', detail: error.message };
    }
  };
  const byPayment = Map.groupBy(followUps, ({ posting }) => posting.followUp.paymentId).values();
  const postSome = async () => {
    // Whoever is free takes the next payment: they share the iterator.
    for (const ofOne of byPayment) {
      for (const followUp of ofOne) {
        posted.push({ followUp, result: await followUp.span.within(() => post(followUp)) });
      }
    }
  };
  await Promise.all(Array.from({ length: paymentsMax }, postSome));
  return posted;
}

/**
 * Posts one, or looks at one again, which holds no amount that its provider has no unit for: it
 * would fail there, and what comes after it had been refused the money meanwhile.
 */
export function postFollowUp(
  { followUps }: Worker,
  posting: FollowUpPosting,
): Promise<FollowUpOutcome> {
  return followUps.post({ ...posting, refuse: (money) => whyImmovable('stripe', money) });
}

/**
 * A reserved refund, capture or cancellation, and whether the provider may have been asked for it
 * before.
 */
export type FollowUpToDo = {
  followUp: ReservedFollowUp;
  traceparent: string;
  asked: 'never' | 'perhaps';
};

/**
 * Has the provider give a reserved refund back, once: whenever it may have been asked for before,
 * the charge's refunds are listed and looked through for this one. Within a day the idempotency key
 * would do; the list does so after any time. An old refund's row that seems new may have been set
 * back by a restore, after the money was given back: it is looked for too.
 *
 * A refund has one key for ever, unlike a charge. After a 500 that the provider keeps it is unknown
 * whether the refund is yet to come, and no object refuses the second of two partial ones; so it
 * stays pending, and every attempt first lists, then asks under the same key, until the refund is
 * in the list or the provider has forgotten the key, after a day at the earliest.
 *
 * What is left open is a refund that the provider carries out more than a day after it was asked
 * for it, and a process that sleeps for so long between looking and asking.
 */
export async function giveBack(
  worker: Worker,
  { followUp, traceparent, asked }: FollowUpToDo,
): Promise<AttemptOutcome> {
  const first = asked === 'never' && !mayBeForgotten(followUp.acceptedAt);
  const atProvider = await ask(worker, requestOf(followUp), first ? 'never' : 'perhaps');
  await worker.crashPoints.reached('worker.refunded');
  switch (atProvider.outcome) {
    case 'succeeded':
      return settle(worker, followUp, {
        traceparent,
        result: { state: 'succeeded' },
        refundId: atProvider.refundId,
      });
    case 'refused': {
      const { failure, refundId } = atProvider;
      const result = { state: 'failed' as const, failure };
      return settle(worker, followUp, { traceparent, result, ...(refundId ? { refundId } : {}) });
    }
    case 'waiting': {
      const { txnId, version } = followUp;
      if (followUp.provider.refundId === undefined) {
        await worker.followUps.storeRefundId({ txnId, version, refundId: atProvider.refundId });
      }
      return { outcome: 'waiting' };
    }
    case 'unknown':
      return { outcome: 'unknown', because: atProvider };
    default:
      return atProvider satisfies never;
  }
}

/** Asks the provider, after a look whenever it may have given the money back already. */
async function ask(
  { provider }: Worker,
  request: RefundRequest,
  asked: FollowUpToDo['asked'],
): Promise<RefundAtProvider> {
  if (asked === 'perhaps') {
    const found = await provider.findRefund(request);
    if (found.outcome !== 'none') return found;
  }
  const answer = await provider.refund(request);
  if (answer.outcome === 'succeeded' || answer.outcome === 'waiting') return answer;
  if (answer.outcome === 'unknown' && !answer.sent) return answer;
  // A refusal may be about what somebody else gave back for this very refund.
  const found = await provider.findRefund(request);
  return found.outcome === 'none' ? answer : found;
}

function requestOf(refund: ReservedFollowUp): RefundRequest {
  const { txnId, partnerId, key, money } = refund;
  const { intentId } = refund.provider;
  return { txnId, kind: 'refund', partnerId, key, intentId, money };
}

/** Settles one that was reserved; a worker that was faster has come to the same end. */
export async function settle(
  { followUps, crashPoints }: Worker,
  { txnId, version }: ReservedFollowUp,
  end: Pick<SettleFollowUpRequest, 'result' | 'traceparent' | 'refundId' | 'payment'>,
): Promise<AttemptOutcome> {
  const settled = await followUps.settle({ txnId, version, settledAt: new Date(), ...end });
  if (settled.outcome === 'settled') {
    await crashPoints.reached('worker.settled');
    return { outcome: 'settled', state: end.result.state };
  }
  const row = await followUps.find(txnId);
  return { outcome: 'taken-over', state: row?.state ?? 'pending' };
}
