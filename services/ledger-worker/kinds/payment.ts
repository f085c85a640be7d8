import type { NextAction } from '@triplock/contracts';
import type { AwaitCustomerRequest } from '@triplock/ledger';
import { isFinal, type Failure, type Payment } from '@triplock/payments';
import {
  isChargedAtOnce,
  mayBeForgotten,
  nextAttempt,
  type ChargeOutcome,
  type ConfirmRequest,
  type CreateOutcome,
  type CustomerAction,
  type FoundIntent,
  type IntentOutcome,
  type IntentQuery,
  type IntentRequest,
  type Provider,
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
 * Charges a pending payment: has an intent made and confirmed in one call, stores its id, settles.
 * Where that is not possible, or no longer (ADR 19), it prepares an intent, stores its id, confirms
 * that one, settles. Between any two of these steps the process may die and this be called again,
 * by anyone:
 *
 * - after the one call, before the id is stored: the same call, by the same key, tells which intent
 *   it was; half a day later it is looked for, and found;
 * - before the id of a prepared one is stored: an intent is left that charged nobody; within a day
 *   the same call returns that intent again, later it is looked for;
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
  if (stored.outcome === 'charged') return settleCharged(worker, { payment, traceparent }, stored);
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

/** What one call charged to the end, so that its intent is stored with that. */
type Charged = { outcome: 'charged'; intentId: string; chargeId: string };

async function settleCharged(
  worker: WorkerAt,
  card: CardPayment,
  { intentId, chargeId }: Charged,
): Promise<AttemptOutcome> {
  const intent = { provider: worker.name, intentId };
  const result = { state: 'succeeded' as const };
  const ended = await settle(worker, card, { result, chargeId, intent });
  return ended.outcome === 'taken-over' ? yieldTo(worker, card.payment, intentId) : ended;
}

type StoredIntent = {
  outcome: 'stored';
  intentId: string;
  version: number;
  /** How far it is, by the answer that made it; without it the intent has to be read. */
  seen?: IntentOutcome | undefined;
};

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
    return { outcome: 'stored', intentId, version } satisfies StoredIntent;
  }
  const made = await makeIntent(worker, payment);
  switch (made.outcome) {
    case 'unknown':
      return { outcome: 'unknown', because: made } satisfies AttemptOutcome;
    case 'refused':
      return made;
    case 'found':
      return storeIntent(worker, payment, made);
    case 'made':
      await worker.crashPoints.reached('worker.charged');
      if (made.seen?.outcome === 'succeeded' && payment.details.captureMethod !== 'manual') {
        const { intentId, seen } = made;
        return { outcome: 'charged', intentId, chargeId: seen.chargeId } satisfies Charged;
      }
      return storeIntent(worker, payment, made);
    case 'created': {
      await worker.crashPoints.reached('worker.intent-created');
      const seen = { outcome: 'unconfirmed' } as const;
      return storeIntent(worker, payment, { intentId: made.intentId, seen });
    }
    default:
      return made satisfies never;
  }
}

type MadeIntent = ChargeOutcome | CreateOutcome | Exclude<FoundIntent, { outcome: 'none' }>;

async function makeIntent(worker: WorkerAt, payment: Payment): Promise<MadeIntent> {
  const { charge } = worker.provider;
  if (charge !== undefined && isChargedAtOnce(payment.acceptedAt)) {
    return chargeAtOnce(worker, payment, charge);
  }
  if (mayBeForgotten(payment.acceptedAt)) {
    const found = await findIntent(worker, payment);
    if (found.outcome !== 'none') return found;
  }
  return charge === undefined
    ? createIntent(worker, requestOf(payment))
    : createInstead(worker, payment, charge);
}

/**
 * Prepares a charge under the key of the one call: whoever wakes late to send that makes nothing
 * any more, and where it was sent before it has the key, and is asked what it came to.
 */
async function createInstead(
  worker: WorkerAt,
  payment: Payment,
  charge: NonNullable<Provider['charge']>,
): Promise<MadeIntent> {
  const request = requestOf(payment);
  const answer = await worker.provider.createIntent({ ...request, under: 'charge' });
  if (answer.outcome !== 'unknown') return answer;
  if (answer.kept) return createIntent(worker, request);
  if (answer.keyTaken !== true) return answer;
  const found = await findIntent(worker, payment);
  return found.outcome === 'none' ? chargeAtOnce(worker, payment, charge) : found;
}

/**
 * An answer that was lost is given again under the same key, when the payment is due again. One
 * that is kept says that the call came to its end: then the intent that it made is there to be
 * found, or it made none. Of a call by other parameters nobody knows whether it did: until its
 * intent is found nothing else is made.
 */
async function chargeAtOnce(
  worker: WorkerAt,
  payment: Payment,
  charge: NonNullable<Provider['charge']>,
): Promise<MadeIntent> {
  const answer = await charge(requestOf(payment));
  if (answer.outcome !== 'unknown') return answer;
  if (answer.kept) return findOrCreateIntent(worker, payment);
  if (answer.keyTaken !== true) return answer;
  const found = await findIntent(worker, payment);
  return found.outcome === 'none' ? answer : found;
}

async function findOrCreateIntent(worker: WorkerAt, payment: Payment): Promise<MadeIntent> {
  const found = await findIntent(worker, payment);
  return found.outcome === 'none' ? createIntent(worker, requestOf(payment)) : found;
}

function findIntent({ provider }: WorkerAt, payment: Payment): Promise<FoundIntent> {
  const { txnId, acceptedAt, details } = payment;
  return provider.findIntent({ txnId, acceptedAt, money: details.money });
}

async function storeIntent(
  worker: WorkerAt,
  payment: Payment,
  { intentId, seen }: Pick<StoredIntent, 'intentId' | 'seen'>,
): Promise<StoredIntent | AttemptOutcome> {
  const { txnId, version } = payment;
  const { name: provider } = worker;
  const stored = await worker.ledger.storeIntent({ txnId, version, provider, intentId });
  if (stored.outcome === 'stale') return yieldTo(worker, payment, intentId);
  await worker.crashPoints.reached('worker.intent-stored');
  return { ...stored, intentId, seen };
}

/**
 * Our intent is cancelled when the row has another one, or is final without any: it charges nobody.
 * While the row is pending without an intent ours must stay, because for a day the next worker gets
 * this very intent under the same key. One that has charged after all (ADR 19 says when) is for a
 * person to give back.
 */
async function yieldTo(
  { ledger, logger, provider }: WorkerAt,
  { txnId, details }: Payment,
  intentId: string,
): Promise<AttemptOutcome> {
  const row = await ledger.find(txnId);
  const decided = row !== undefined && (row.provider !== undefined || isFinal(row.state));
  if (decided && row.provider?.intentId !== intentId) {
    const { outcome } = await provider.cancelIntent({ txnId, intentId, money: details.money });
    if (outcome === 'succeeded') {
      logger.error({ txnId, intentId }, 'charged beside its payment: npm run give-back');
    }
  }
  return { outcome: 'taken-over', state: row?.state ?? 'pending' };
}

/**
 * How the charge ended. An intent that was not made just now may already be confirmed.
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
  { intentId, seen }: StoredIntent,
): Promise<IntentOutcome | { outcome: 'stale' }> {
  const { provider, crashPoints, ledger, limits } = worker;
  const { returnUrl, captureMethod } = payment.details;
  const asked = { ...callerOf(payment), ...queryOf(payment), intentId, returnUrl };
  let outcome: IntentOutcome = seen ?? (await provider.readIntent(asked));
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
