import { canceledBy, type AuthorizeRequest, type SettleRequest } from '@triplock/ledger';
import type { Payment, Settlement, TxnId } from '@triplock/payments';
import type { IntentOutcome, Unknown } from '@triplock/provider';
import type { AttemptOutcome, Worker, WorkerAt } from '../worker.ts';

/** A pending card payment as it was read, and whose request it was. */
export type CardPayment = { payment: Payment; traceparent: string };

type Declined = Extract<IntentOutcome, { outcome: 'declined' }>;

type Hold = Pick<AuthorizeRequest, 'hold' | 'heldSince' | 'heldUntil'>;

/**
 * Notes that the money is held, once. A crash before that leaves an intent that says so to whoever
 * looks next. Where the customer acted after the time was over the hold is let go instead, by every
 * worker alike: else one that saw it end could let go of what another one had noted since. One that
 * is noticed late, after an outage, stands by the provider's word of when it began.
 */
export async function authorize(
  worker: WorkerAt,
  held: CardPayment,
  hold: Hold,
): Promise<AttemptOutcome> {
  const { payment, traceparent } = held;
  const { txnId, version, authorizedAt } = payment;
  if (authorizedAt !== undefined) return { outcome: 'waiting' };
  const noted = await worker.ledger.authorize({ txnId, version, traceparent, ...hold });
  switch (noted.outcome) {
    case 'stored':
      await worker.crashPoints.reached('worker.authorized');
      return { outcome: 'waiting' };
    case 'over':
      return letGo(worker, held);
    case 'stale':
      return takenOver(worker, payment);
    default:
      return noted satisfies never;
  }
}

/** What the intent is instead, if it was captured by hand meanwhile, is seen by the next look. */
async function letGo(worker: WorkerAt, held: CardPayment): Promise<AttemptOutcome> {
  const { txnId, details, provider } = held.payment;
  // A row on which a customer's time was noted names its intent.
  const intent = { txnId, intentId: provider!.intentId, money: details.money };
  const ended = await worker.provider.cancelIntent(intent);
  if (ended.outcome === 'unknown') return { outcome: 'unknown', because: ended };
  if (ended.outcome !== 'declined') return { outcome: 'waiting' };
  return settle(worker, held, { result: endOf(held.payment, ended) });
}

/**
 * Whether what was held was let go by a cancellation, and the ledger does not know that it was
 * held: its row was set back by a restore. It is noted first, as where it was captured. That wakes
 * the cancellation, which ends both rows; the next look does so where none comes. An intent that
 * was cancelled before it held anything shows no hold, and nothing of one is told.
 */
export function wasLetGo({ authorizedAt }: Payment, { failure, wasHeld }: Declined): boolean {
  return wasHeld === true && authorizedAt === undefined && failure.code === 'payment_canceled';
}

/**
 * What was held is taken. Where the ledger does not know that it was held, its row was set back by
 * a restore, or a worker died before it noted that: it is noted now, which wakes the capture, and
 * that one ends both rows. Else nobody's capture took it: somebody did by hand at the provider, as
 * the audit reports too, and a capture of that amount ends the payment.
 *
 * The row is read once more, because a capture may have begun and ended since it was read.
 */
export async function capturedBefore(worker: WorkerAt, held: CardPayment): Promise<AttemptOutcome> {
  const { txnId, version, authorizedAt } = held.payment;
  if (authorizedAt === undefined) return authorize(worker, held, { hold: 'ended' });
  const row = await worker.ledger.find(txnId);
  if (row?.version !== version) return { outcome: 'taken-over', state: row?.state ?? 'pending' };
  return capturedByHand(txnId);
}

/** What a payment waits for that was captured at the provider, and by no capture of ours. */
function capturedByHand(txnId: TxnId): AttemptOutcome {
  const error = new Error(
    `payment ${txnId} was captured at the provider and by no capture of ours`,
  );
  const because: Unknown = {
    outcome: 'unknown',
    error,
    kept: false,
    sent: true,
    untilMended: true,
  };
  return { outcome: 'unknown', because };
}

/**
 * What was held is let go, which is no decline: by the provider, once it has expired. What the
 * provider let go by itself and shows no hold of had none that could expire.
 */
export function endOf({ authorizedAt }: Payment, { failure, wasHeld }: Declined): Settlement {
  const hasExpired = failure.code === 'authorization_expired';
  if (authorizedAt !== undefined || (hasExpired && wasHeld)) return canceledBy(failure);
  return { state: 'failed', failure: hasExpired ? canceledAtProvider : failure };
}

const canceledAtProvider = {
  code: 'payment_canceled',
  message: 'The payment was cancelled at the provider.',
};

/** Makes a card payment final, unless somebody was faster. */
export async function settle(
  { ledger, crashPoints }: Worker,
  { payment, traceparent }: CardPayment,
  end: Pick<SettleRequest, 'result' | 'chargeId' | 'intent'>,
): Promise<AttemptOutcome> {
  const { txnId, version } = payment;
  const settledAt = new Date();
  const settled = await ledger.settle({ txnId, version, traceparent, settledAt, ...end });
  if (settled.outcome === 'settled') {
    await crashPoints.reached('worker.settled');
    return { outcome: 'settled', state: end.result.state };
  }
  // Whoever was faster saw the same intent, and so the same end.
  return takenOver({ ledger }, payment);
}

/** What whoever was faster made of it. */
export async function takenOver(
  { ledger }: Pick<Worker, 'ledger'>,
  { txnId }: Payment,
): Promise<AttemptOutcome> {
  const row = await ledger.find(txnId);
  return { outcome: 'taken-over', state: row?.state ?? 'pending' };
}
