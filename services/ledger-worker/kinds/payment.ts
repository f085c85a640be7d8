import type { NextAction } from '@triplock/contracts';
import type { AwaitCustomerRequest } from '@triplock/ledger';
import { isFinal, type Failure, type Payment } from '@triplock/payments';
import {
  mayBeForgotten,
  nextAttempt,
  type ConfirmRequest,
  type CreateOutcome,
  type CustomerAction,
  type FoundIntent,
  type IntentOutcome,
  type IntentQuery,
  type IntentRequest,
} from '@triplock/provider';
import {
  authorize,
  capturedBefore,
  endOf,
  settle,
  takenOver,
  wasLetGo,
  type CardPayment,
} from './holds.ts';
import { chargerOf, workerAt } from '../providers.ts';
import type { AttemptOutcome, Worker, WorkerAt } from '../worker.ts';

/**
 * Charges a pending payment: prepares an intent, stores its id, confirms that one, settles. Between
 * any two of these steps the process may die and this be called again, by anyone:
 *
 * - before the id is stored: an intent is left that charged nobody; within a day the same call
 *   returns that intent again, later it is looked for;
 * - before the intent is confirmed: the stored one is confirmed, however much later;
 * - before the payment is settled: the stored intent knows how the charge ended.
 */
export async function chargePayment(
  anyone: Worker,
  { payment, traceparent }: CardPayment,
): Promise<AttemptOutcome> {
  const charger = chargerOf(payment);
  if (charger === undefined) throw new Error(`payment ${payment.txnId} is charged by nobody`);
  const worker = workerAt(anyone, charger);
  // A capture or cancellation has it, asks the provider, and ends both.
  if (payment.closedBy !== undefined) return { outcome: 'waiting' };
  const stored = await ensureIntent(worker, payment);
  if (stored.outcome === 'refused') {
    const result = { state: 'failed' as const, failure: stored.failure };
    return settle(worker, { payment, traceparent }, { result });
  }
  if (stored.outcome !== 'stored') return stored;
  const ready = { ...payment, version: stored.version };
  const decided = await decide(worker, { payment: ready, traceparent }, stored);
  const charged =
    decided.outcome === 'reopened'
      ? await endReopened(worker, { ...queryOf(payment), intentId: stored.intentId }, decided)
      : decided;
  switch (charged.outcome) {
    case 'succeeded': {
      if (payment.details.captureMethod === 'manual') {
        return capturedBefore(worker, { payment: ready, traceparent });
      }
      const { chargeId } = charged;
      const result = { state: 'succeeded' as const };
      return settle(worker, { payment: ready, traceparent }, { result, chargeId });
    }
    case 'authorized': {
      const { heldSince, heldUntil } = charged;
      const hold = { hold: 'stands', heldSince, heldUntil } as const;
      return authorize(worker, { payment: ready, traceparent }, hold);
    }
    case 'declined': {
      if (wasLetGo(payment, charged)) {
        return authorize(worker, { payment: ready, traceparent }, { hold: 'ended' });
      }
      const result = endOf(payment, charged);
      return settle(worker, { payment: ready, traceparent }, { result });
    }
    case 'waiting':
    case 'unconfirmed':
      return { outcome: 'waiting' };
    case 'stale':
      return takenOver(worker, payment);
    case 'unknown':
      return { outcome: 'unknown', because: charged };
    default:
      return charged satisfies never;
  }
}

type StoredIntent = { outcome: 'stored'; intentId: string; version: number; isNew: boolean };

/**
 * The intent that may be confirmed for this payment: the one on its row.
 *
 * A row without one may be a row that a restore set back: then an intent was made, confirmed
 * perhaps, and by now the provider may not know its key. So an old payment's intent is looked for
 * before one is made. A crash between looking and storing changes nothing at the provider, and the
 * next attempt finds the same one; two workers that find it store it once, by the row's version.
 * What is left open is a process that sleeps for hours between looking and making: the intent that
 * it missed is as old as what it then makes is new.
 */
async function ensureIntent(worker: WorkerAt, payment: Payment) {
  const { provider } = payment;
  if (provider !== undefined) {
    const { intentId } = provider;
    const { version } = payment;
    return { outcome: 'stored', intentId, version, isNew: false } satisfies StoredIntent;
  }
  const made = await findOrCreateIntent(worker, payment);
  switch (made.outcome) {
    case 'unknown':
      return { outcome: 'unknown', because: made } satisfies AttemptOutcome;
    case 'refused':
      return made;
    case 'found':
      return storeIntent(worker, payment, { intentId: made.intentId, isNew: false });
    case 'created':
      await worker.crashPoints.reached('worker.intent-created');
      return storeIntent(worker, payment, { intentId: made.intentId, isNew: true });
    default:
      return made satisfies never;
  }
}

async function findOrCreateIntent(
  worker: WorkerAt,
  payment: Payment,
): Promise<CreateOutcome | Exclude<FoundIntent, { outcome: 'none' }>> {
  const request = requestOf(payment);
  if (mayBeForgotten(payment.acceptedAt)) {
    const { acceptedAt } = payment;
    const found = await worker.provider.findIntent({ ...request, acceptedAt });
    if (found.outcome !== 'none') return found;
  }
  return createIntent(worker, request);
}

async function storeIntent(
  worker: WorkerAt,
  payment: Payment,
  { intentId, isNew }: { intentId: string; isNew: boolean },
): Promise<StoredIntent | AttemptOutcome> {
  const { txnId, version } = payment;
  const { name: provider } = worker;
  const stored = await worker.ledger.storeIntent({ txnId, version, provider, intentId });
  if (stored.outcome === 'stale') return yieldTo(worker, payment, intentId);
  await worker.crashPoints.reached('worker.intent-stored');
  return { ...stored, intentId, isNew };
}

/**
 * Our intent is cancelled when the row has another one, or is final without any: it charges nobody.
 * While the row is pending without an intent ours must stay, because for a day the next worker gets
 * this very intent under the same key.
 */
async function yieldTo(
  { ledger, provider }: WorkerAt,
  { txnId, details }: Payment,
  intentId: string,
): Promise<AttemptOutcome> {
  const row = await ledger.find(txnId);
  const decided = row !== undefined && (row.provider !== undefined || isFinal(row.state));
  if (decided && row.provider?.intentId !== intentId) {
    await provider.cancelIntent({ txnId, intentId, money: details.money });
  }
  return { outcome: 'taken-over', state: row?.state ?? 'pending' };
}

/**
 * How the charge ended. An intent that was not created just now may already be confirmed.
 *
 * A customer's time counts from when a worker first saw the answer to the confirmation. A crash
 * before that is noted gives the customer longer: the next worker sees the same intent and notes it
 * then. Whoever acts in the moment in which the time is over is charged or not by the provider's
 * word: an intent that succeeded is no longer to be cancelled.
 *
 * An intent that only holds the money can be cancelled all the same, so it is read once more after
 * the time is over, and cancelled only if it still waits then: whoever acts after that read is too
 * late by the ledger's clock. A hold that the read finds is kept where it began `clocksDifferMs`
 * before the end. One that began in the last minutes, as far as two clocks may differ, is let go
 * although its customer may have been in time: only while the time runs can it be noted.
 */
async function decide(
  worker: WorkerAt,
  { payment, traceparent }: CardPayment,
  { intentId, isNew }: StoredIntent,
): Promise<IntentOutcome | { outcome: 'stale' }> {
  const { provider, crashPoints, ledger, limits } = worker;
  const { returnUrl, captureMethod } = payment.details;
  const asked = { ...callerOf(payment), ...queryOf(payment), intentId, returnUrl };
  let outcome: IntentOutcome = isNew
    ? { outcome: 'unconfirmed' }
    : await provider.readIntent(asked);
  if (outcome.outcome === 'unconfirmed') {
    outcome = await confirmIntent(worker, asked);
    await crashPoints.reached('worker.charged');
  }
  if (outcome.outcome !== 'waiting' || outcome.waitsFor !== 'customer') return outcome;
  const { txnId, version } = payment;
  const action = sealedAction(worker, payment, outcome.action);
  const withinMs = limits.actionExpiresMs;
  const time = await ledger.awaitCustomer({ txnId, version, withinMs, traceparent, ...action });
  switch (time.outcome) {
    case 'waits':
      return outcome;
    case 'over': {
      const seen = captureMethod === 'manual' ? await provider.readIntent(asked) : outcome;
      const waits = seen.outcome === 'waiting' && seen.waitsFor === 'customer';
      return waits ? provider.cancelIntent(asked) : seen;
    }
    case 'stale':
      return time;
    default:
      return time satisfies never;
  }
}

/**
 * Cancels what was refused before that is told as the end. Its secret may be with its customer, and
 * with it another card is charged, as long as the intent is open; a row that a restore set back
 * does not know whether it was given out, so every refused one is cancelled. Whoever was faster
 * decides: one that was charged meanwhile has succeeded, one that is under way is looked at again.
 *
 * A crash after that leaves a cancelled intent, which still says why it was refused.
 */
async function endReopened(
  { provider, crashPoints }: WorkerAt,
  asked: IntentQuery,
  { failure }: { failure: Failure },
): Promise<Exclude<IntentOutcome, { outcome: 'reopened' }>> {
  const ended = await provider.cancelIntent(asked);
  await crashPoints.reached('worker.given-up');
  if (ended.outcome === 'declined') return { ...ended, failure };
  return ended.outcome === 'reopened' ? { outcome: 'waiting', waitsFor: 'provider' } : ended;
}

/** What the gateway opens for the payment's partner, and nobody else. */
function sealedAction(
  { actionKeys }: WorkerAt,
  { txnId, details }: Payment,
  action: CustomerAction | undefined,
): Pick<AwaitCustomerRequest, 'action'> {
  if (action === undefined) return {};
  const { type, url, clientSecret: client_secret } = action;
  const { returnUrl: return_url } = details;
  const way = url === undefined ? {} : { redirect_to_url: { url, return_url } };
  const next: NextAction = { type, ...way, client_secret };
  const sealed = JSON.stringify(actionKeys.seal(`action/${txnId}`, JSON.stringify(next)));
  return { action: { type, sealed } };
}

/**
 * Prepares a charge, past errors that the provider keeps. What such an attempt may have left behind
 * is an intent that is unknown here and so never confirmed: it charges nobody.
 */
async function createIntent(worker: WorkerAt, request: IntentRequest): Promise<CreateOutcome> {
  const answer = await worker.provider.createIntent(request);
  if (answer.outcome !== 'unknown') return answer;
  const attempt = nextAttempt(request.attempt, answer);
  return attempt === undefined ? answer : createIntent(worker, { ...request, attempt });
}

/**
 * Confirms a stored intent and goes by the intent's own state when the answer is not known. Another
 * attempt is made only after the intent was seen unconfirmed, and an intent succeeds once whatever
 * was sent, so nobody is charged twice, also when an attempt comes to life late.
 */
async function confirmIntent(worker: WorkerAt, request: ConfirmRequest): Promise<IntentOutcome> {
  const answer = await worker.provider.confirmIntent(request);
  if (answer.outcome !== 'unknown' || !answer.sent) return answer;
  const seen = await worker.provider.readIntent(request);
  // It was sent, whatever became of the read.
  if (seen.outcome === 'unknown') return answer;
  if (seen.outcome !== 'unconfirmed') return seen;
  const attempt = nextAttempt(request.attempt, answer);
  return attempt === undefined ? answer : confirmIntent(worker, { ...request, attempt });
}

function requestOf(payment: Payment) {
  const { money, paymentMethod, returnUrl, captureMethod } = payment.details;
  if (paymentMethod === undefined) throw new Error(`payment ${payment.txnId} is charged by nobody`);
  return { ...callerOf(payment), money, paymentMethod, returnUrl, captureMethod };
}

function queryOf({ txnId, details: { money, captureMethod } }: Payment) {
  return { txnId, money, captureMethod };
}

function callerOf({ txnId, partnerId, key }: Payment) {
  return { txnId, kind: 'payment' as const, partnerId, key, attempt: 1 };
}
