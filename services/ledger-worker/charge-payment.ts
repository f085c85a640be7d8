import type { Ledger } from '@triplock/ledger';
import { isFinal, type Payment, type Settlement } from '@triplock/payments';
import type { IntentOutcome, Provider } from '@triplock/provider';
import type { CrashPoints } from '@triplock/runtime';
import type { AttemptOutcome } from './attempt-outcome.ts';
import { confirmIntent } from './confirm-intent.ts';
import { createIntent } from './create-intent.ts';

/** What charging stands on. */
export type ChargeParts = {
  ledger: Pick<Ledger, 'storeIntent' | 'settle' | 'find'>;
  provider: Provider;
  crashPoints: Pick<CrashPoints, 'reached'>;
  /** How long a customer may take to authenticate before the payment is given up, milliseconds. */
  actionExpiresMs: number;
};

/** A pending card payment as it was read, and whose request it was. */
export type CardPayment = { payment: Payment; traceparent: string };

/**
 * Charges a pending payment: prepares an intent, stores its id, confirms that one, settles. Between
 * any two of these steps the process may die and this be called again, by anyone:
 *
 * - before the id is stored: an intent is left that charged nobody; within a day the same call
 *   returns that intent again, later a new one;
 * - before the intent is confirmed: the stored one is confirmed, however much later;
 * - before the payment is settled: the stored intent says how the charge ended.
 */
export async function chargePayment(
  parts: ChargeParts,
  { payment, traceparent }: CardPayment,
): Promise<AttemptOutcome> {
  const stored = await ensureIntent(parts, payment);
  if (stored.outcome === 'refused') {
    const result = { state: 'failed' as const, failure: stored.failure };
    return settle(parts, { payment, traceparent }, { result });
  }
  if (stored.outcome !== 'stored') return stored;
  const ready = { ...payment, version: stored.version };
  const charged = await decide(parts, ready, stored);
  switch (charged.outcome) {
    case 'succeeded': {
      const { chargeId } = charged;
      const result = { state: 'succeeded' as const };
      return settle(parts, { payment: ready, traceparent }, { result, chargeId });
    }
    case 'declined': {
      const result = { state: 'failed' as const, failure: charged.failure };
      return settle(parts, { payment: ready, traceparent }, { result });
    }
    case 'waiting':
    case 'unconfirmed':
      return { outcome: 'waiting' };
    case 'unknown':
      return { outcome: 'unknown', because: charged };
    default:
      return charged satisfies never;
  }
}

type StoredIntent = { outcome: 'stored'; intentId: string; version: number; isNew: boolean };

/** The intent that may be confirmed for this payment: the one on its row. */
async function ensureIntent(parts: ChargeParts, payment: Payment) {
  const { txnId, version, provider } = payment;
  if (provider !== undefined) {
    const { intentId } = provider;
    return { outcome: 'stored', intentId, version, isNew: false } satisfies StoredIntent;
  }
  const created = await createIntent(parts.provider, requestOf(payment));
  if (created.outcome === 'unknown') {
    return { outcome: 'unknown', because: created } satisfies AttemptOutcome;
  }
  if (created.outcome === 'refused') return created;
  await parts.crashPoints.reached('worker.intent-created');
  const { intentId } = created;
  const stored = await parts.ledger.storeIntent({ txnId, version, provider: 'stripe', intentId });
  if (stored.outcome === 'stale') return yieldTo(parts, payment, intentId);
  await parts.crashPoints.reached('worker.intent-stored');
  return { ...stored, intentId, isNew: true } satisfies StoredIntent;
}

/**
 * Our intent is cancelled when the row has another one, or is final without any: it charges nobody.
 * While the row is pending without an intent ours must stay, because for a day the next worker gets
 * this very intent under the same key.
 */
async function yieldTo(
  { ledger, provider }: ChargeParts,
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

/** How the charge ended. An intent that was not created just now may already be confirmed. */
async function decide(
  { provider, crashPoints, actionExpiresMs }: ChargeParts,
  payment: Payment,
  { intentId, isNew }: StoredIntent,
): Promise<IntentOutcome> {
  const asked = { ...callerOf(payment), intentId, money: payment.details.money };
  let outcome: IntentOutcome = isNew
    ? { outcome: 'unconfirmed' }
    : await provider.readIntent(asked);
  if (outcome.outcome === 'unconfirmed') {
    outcome = await confirmIntent(provider, asked);
    await crashPoints.reached('worker.charged');
  }
  const expired = Date.now() - payment.acceptedAt.getTime() > actionExpiresMs;
  if (outcome.outcome === 'waiting' && outcome.waitsFor === 'customer' && expired) {
    return provider.cancelIntent(asked);
  }
  return outcome;
}

async function settle(
  { ledger, crashPoints }: ChargeParts,
  { payment, traceparent }: CardPayment,
  end: { result: Settlement; chargeId?: string },
): Promise<AttemptOutcome> {
  const { txnId, version } = payment;
  const settledAt = new Date();
  const settled = await ledger.settle({ txnId, version, traceparent, settledAt, ...end });
  if (settled.outcome === 'settled') {
    await crashPoints.reached('worker.settled');
    return { outcome: 'settled', state: end.result.state };
  }
  // Whoever was faster saw the same intent, and so the same end.
  const row = await ledger.find(txnId);
  return { outcome: 'taken-over', state: row?.state ?? 'pending' };
}

function requestOf(payment: Payment) {
  const { money, paymentMethod } = payment.details;
  if (paymentMethod === undefined) throw new Error(`payment ${payment.txnId} charges no card`);
  return { ...callerOf(payment), money, paymentMethod };
}

function callerOf({ txnId, partnerId, key }: Payment) {
  return { txnId, kind: 'payment' as const, partnerId, key, attempt: 1 };
}
