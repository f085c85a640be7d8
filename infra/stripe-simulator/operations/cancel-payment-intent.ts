import type { ChargeRecord, PaymentIntentRecord } from '../records/records.ts';
import { oneOf, texts } from '../wire/param-kinds.ts';
import { readParams } from '../wire/read-params.ts';
import { readExpand, renderExpanded } from './expand-object.ts';
import { findIntent } from './find-intent.ts';
import { unexpectedState } from './intent-answers.ts';
import { happened, ok, type Call, type Desk, type Operation, type Result } from './operation.ts';

const reasons = ['duplicate', 'fraudulent', 'requested_by_customer', 'abandoned'] as const;
const params = { cancellation_reason: oneOf(reasons), expand: texts };

const cancelable = [
  ...['requires_payment_method', 'requires_capture', 'requires_confirmation', 'requires_action'],
  'processing',
];

/**
 * https://docs.stripe.com/api/payment_intents/cancel. "In rare cases" also in processing: here that
 * is a bank debit that has not gone out yet, such as `pm_usBankAccount_processing`.
 */
export const cancelPaymentIntent: Operation = {
  name: 'payment_intents.cancel',
  method: 'POST',
  path: '/v1/payment_intents/:id/cancel',
  prepare(desk, call) {
    const read = readParams(call.params, params);
    if (read.outcome === 'refused') return read;
    const found = findIntent(desk, call.id);
    if (found.outcome === 'refused') return found;
    const expand = readExpand('payment_intent', read.value.expand);
    if (expand.outcome === 'refused') return expand;
    const wish = { reason: read.value.cancellation_reason ?? null, expand: expand.value };
    return { outcome: 'ready', run: () => cancel(desk, call, wish) };
  },
};

type Wish = { reason: string | null; expand: readonly string[][] };

function cancel(desk: Desk, call: Call, wish: Wish): Result {
  const before = desk.account.paymentIntents.get(call.id)!;
  if (!cancelable.includes(before.status)) {
    const message =
      `You cannot cancel this PaymentIntent because it has a status of ${before.status}. Only a ` +
      `PaymentIntent with one of the following statuses may be canceled: ${cancelable.join(', ')}.`;
    return { answer: () => unexpectedState(before, message) };
  }
  const at = desk.now();
  const intent: PaymentIntentRecord = {
    ...before,
    ...{ status: 'canceled', canceledAt: at, cancellationReason: wish.reason },
    ...{ action: null, settlement: null },
  };
  const charges = before.status === 'processing' ? [stopped(desk, before)] : [];
  const events = [happened('payment_intent.canceled', intent, { at, request: call.request })];
  return {
    change: { paymentIntents: [intent], charges, events },
    answer: () => ok(renderExpanded(desk.account, intent, wish.expand)),
  };
}

function stopped(desk: Desk, { latestCharge }: PaymentIntentRecord): ChargeRecord {
  const charge = desk.account.charges.get(latestCharge ?? '');
  if (charge === undefined) throw new Error('a payment in processing has no charge');
  return { ...charge, status: 'failed' };
}
