import {
  newId,
  type ChargeRecord,
  type EventRecord,
  type PaymentIntentRecord,
  type RefundRecord,
} from '../records.ts';
import { renderPaymentIntent } from '../render/payment-intents.ts';
import { readExpand, renderExpanded } from '../render/records.ts';
import type { Account } from '../store/account.ts';
import type { Change } from '../store/journal.ts';
import { invalidRequest } from '../wire/errors.ts';
import {
  mergeMetadata,
  metadata,
  oneOf,
  readParams,
  texts,
  type ValuesOf,
} from '../wire/params.ts';
import { raiseDispute } from './disputes.ts';
import { findIntent, unexpectedState } from './intent-params.ts';
import { checkPart, wholeAmount } from './money.ts';
import { happened, ok, type Call, type Operation, type Result, type World } from './operation.ts';
import { chargeOf } from './payment-attempts.ts';

// How an authorisation ends: captured, canceled or expired, and never two of them, because each is
// one synchronous step that looks at the state once more.

const captureParams = {
  amount_to_capture: wholeAmount,
  metadata,
  // Only one capture is simulated: with `false` a caller would wait for a second one.
  final_capture: oneOf(['true']),
  expand: texts,
};

type Capture = { values: ValuesOf<typeof captureParams>; expand: readonly string[][] };

/** https://docs.stripe.com/api/payment_intents/capture */
export const capturePaymentIntent: Operation = {
  name: 'payment_intents.capture',
  method: 'POST',
  path: '/v1/payment_intents/:id/capture',
  prepare(world, call) {
    const read = readParams(call.params, captureParams);
    if (read.outcome === 'refused') return read;
    const found = findIntent(world, call.id);
    if (found.outcome === 'refused') return found;
    const part = checkPart(read.value.amount_to_capture, found.value, 'amount_to_capture');
    if (part.outcome === 'refused') return part;
    const expand = readExpand('payment_intent', read.value.expand);
    if (expand.outcome === 'refused') return expand;
    const wish = { values: read.value, expand: expand.value };
    return { outcome: 'ready', run: () => capture(world, call, wish) };
  },
};

function capture(world: World, call: Call, { values, expand }: Capture): Result {
  const before = world.account.paymentIntents.get(call.id)!;
  if (before.status !== 'requires_capture') {
    return { answer: () => unexpectedState(before, notCapturable(before)) };
  }
  const amount = values.amount_to_capture ?? before.amountCapturable;
  if (amount > before.amountCapturable) return { answer: () => tooLarge(before) };
  const when = { at: world.now(), request: call.request };
  const intent: PaymentIntentRecord = {
    ...before,
    ...nothingHeld,
    status: 'succeeded',
    amountReceived: amount,
    metadata: mergeMetadata(before.metadata, values.metadata),
  };
  const change = captured(world, { intent, amount, when });
  return { change, answer: () => ok(renderExpanded(world.account, intent, expand)) };
}

type When = { at: number; request: EventRecord['request'] };
type Taking = { intent: PaymentIntentRecord; amount: number; when: When };

function captured({ account }: World, { intent, amount, when }: Taking): Change {
  const authorized = chargeOf(account, intent);
  const rest = letGo({ ...authorized, captured: true, amountCaptured: amount }, when.at);
  const { charge, dispute } = raiseDispute(rest.charge, when.at);
  const events = [
    happened('charge.captured', charge, when),
    happened('payment_intent.succeeded', intent, when),
    ...dispute.events,
  ];
  const { disputes } = dispute;
  return { paymentIntents: [intent], charges: [charge], refunds: rest.refunds, disputes, events };
}

const nothingHeld = { amountCapturable: 0, captureBefore: null } as const;

/**
 * "Any additional amount is automatically refunded": what was held and is not taken shows as
 * refunded on the charge, by a refund that nobody asked for and that carries no metadata.
 */
function letGo(
  charge: ChargeRecord,
  at: number,
): { charge: ChargeRecord; refunds: readonly RefundRecord[] } {
  const amount = charge.amount - charge.amountCaptured;
  if (amount === 0) return { charge, refunds: [] };
  const refund: RefundRecord = {
    kind: 'refund',
    gives: 'held',
    id: newId('re_'),
    created: at,
    amount,
    currency: charge.currency,
    charge: charge.id,
    paymentIntent: charge.paymentIntent,
    reason: null,
    metadata: {},
    status: 'succeeded',
    failureReason: null,
    settlement: null,
  };
  return { charge: { ...charge, amountRefunded: amount }, refunds: [refund] };
}

function notCapturable({ status, captureMethod }: PaymentIntentRecord): string {
  if (status === 'succeeded' && captureMethod === 'manual') {
    return 'This PaymentIntent could not be captured because it has already been captured.';
  }
  return (
    `This PaymentIntent could not be captured because it has a status of ${status}. Only a ` +
    'PaymentIntent with one of the following statuses may be captured: requires_capture.'
  );
}

/** https://docs.stripe.com/error-codes#amount-too-large, with the intent: it waits yet. */
function tooLarge(intent: PaymentIntentRecord) {
  const message =
    'The payment could not be captured because the requested capture amount is greater than the ' +
    'amount you can capture for this charge.';
  return invalidRequest(message, {
    code: 'amount_too_large',
    param: 'amount_to_capture',
    payment_intent: renderPaymentIntent(intent),
  });
}

const reasons = ['duplicate', 'fraudulent', 'requested_by_customer', 'abandoned'] as const;
const cancelParams = { cancellation_reason: oneOf(reasons), expand: texts };

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
  prepare(world, call) {
    const read = readParams(call.params, cancelParams);
    if (read.outcome === 'refused') return read;
    const found = findIntent(world, call.id);
    if (found.outcome === 'refused') return found;
    const expand = readExpand('payment_intent', read.value.expand);
    if (expand.outcome === 'refused') return expand;
    const wish = { reason: read.value.cancellation_reason ?? null, expand: expand.value };
    return { outcome: 'ready', run: () => cancel(world, call, wish) };
  },
};

type Cancel = { reason: string | null; expand: readonly string[][] };

function cancel(world: World, call: Call, { reason, expand }: Cancel): Result {
  const before = world.account.paymentIntents.get(call.id)!;
  if (!cancelable.includes(before.status)) {
    const message =
      `You cannot cancel this PaymentIntent because it has a status of ${before.status}. Only a ` +
      `PaymentIntent with one of the following statuses may be canceled: ${cancelable.join(', ')}.`;
    return { answer: () => unexpectedState(before, message) };
  }
  const when = { at: world.now(), request: call.request };
  const intent = canceled(before, reason, when.at);
  const released = release(world.account, before, when);
  const events = [...released.events, happened('payment_intent.canceled', intent, when)];
  return {
    change: { ...released, paymentIntents: [intent], events },
    answer: () => ok(renderExpanded(world.account, intent, expand)),
  };
}

function canceled(
  before: PaymentIntentRecord,
  cancellationReason: string | null,
  canceledAt: number,
): PaymentIntentRecord {
  const ended = { status: 'canceled', action: null, settlement: null } as const;
  return { ...before, ...nothingHeld, ...ended, canceledAt, cancellationReason };
}

/** "The remaining amount_capturable is automatically refunded"; a debit does not go out. */
function release(account: Account, before: PaymentIntentRecord, when: When) {
  if (before.status === 'processing') {
    return { charges: [{ ...chargeOf(account, before), status: 'failed' as const }], events: [] };
  }
  if (before.status !== 'requires_capture') return { events: [] };
  const { charge, refunds } = letGo(chargeOf(account, before), when.at);
  return { charges: [charge], refunds, events: [happened('charge.refunded', charge, when)] };
}

/**
 * "Uncaptured PaymentIntents are cancelled a set number of days (7 by default) after their
 * creation", "after which they are marked as refunded":
 * https://docs.stripe.com/api/charges/capture. No request causes it.
 */
export function expireAuthorization(
  account: Account,
  before: PaymentIntentRecord,
  at: number,
): Change {
  const when = { at, request: null };
  const intent = canceled(before, 'automatic', at);
  const { charge, refunds } = letGo(chargeOf(account, before), at);
  const events = [
    happened('charge.expired', charge, when),
    happened('payment_intent.canceled', intent, when),
  ];
  return { paymentIntents: [intent], charges: [charge], refunds, events };
}
