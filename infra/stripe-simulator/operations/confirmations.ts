import type { PaymentIntentRecord, PaymentMethodRecord } from '../records.ts';
import type { Change } from '../store/journal.ts';
import { readParams, took, type ValuesOf } from '../wire/params.ts';
import { readExpand } from '../render/records.ts';
import {
  attemptParams,
  checkMethodFits,
  checkReturnUrl,
  findIntent,
  findPaymentMethod,
  missingMethod,
  redirectOf,
  unexpectedState,
} from './intent-params.ts';
import type { Call, Operation, Result, World } from './operation.ts';
import { attemptAnswer, attemptPayment, failPayment } from './payment-attempts.ts';

type Wish = {
  readonly values: ValuesOf<typeof attemptParams>;
  readonly method: PaymentMethodRecord | undefined;
  readonly returnUrl: string | null;
  readonly expand: readonly string[][];
};

/** https://docs.stripe.com/api/payment_intents/confirm */
export const confirmPaymentIntent: Operation = {
  name: 'payment_intents.confirm',
  method: 'POST',
  path: '/v1/payment_intents/:id/confirm',
  prepare(world, call) {
    const read = readParams(call.params, attemptParams);
    if (read.outcome === 'refused') return read;
    const values = read.value;
    const found = findIntent(world, call.id);
    if (found.outcome === 'refused') return found;
    const method = readMethod(world, values.payment_method, found.value);
    if (method.outcome === 'refused') return method;
    const expand = readExpand('payment_intent', values.expand);
    if (expand.outcome === 'refused') return expand;
    const returnUrl = isConfirmable(found.value)
      ? checkReturnUrl(found.value.automatic, values.return_url)
      : took(null);
    if (returnUrl.outcome === 'refused') return returnUrl;
    const wish = { values, method: method.value, returnUrl: returnUrl.value, expand: expand.value };
    return { outcome: 'ready', run: () => confirm(world, call, wish) };
  },
};

function readMethod(world: World, id: string | undefined, intent: PaymentIntentRecord) {
  if (id === undefined) return took(undefined);
  const found = findPaymentMethod(world, id);
  return found.outcome === 'refused' ? found : checkMethodFits(found.value, intent);
}

/**
 * The intent is read again here: what was confirmed a moment ago must not be confirmed once more.
 */
function confirm(world: World, call: Call, wish: Wish): Result {
  const intent = world.account.paymentIntents.get(call.id)!;
  if (!isConfirmable(intent)) {
    return { answer: () => unexpectedState(intent, refusalOf(intent)) };
  }
  const method = wish.method ?? world.account.paymentMethods.get(intent.paymentMethod ?? '');
  if (method === undefined) return { answer: () => unexpectedState(intent, missingMethod) };
  const { values } = wish;
  const attempted = attemptPayment({
    intent: { ...intent, receiptEmail: values.receipt_email ?? intent.receiptEmail },
    method,
    at: world.now(),
    request: call.request,
    redirect: redirectOf(world, intent.id, wish.returnUrl),
    settleAfterMs: world.settleAfterMs(),
    authorizedForMs: world.authorizedForMs(),
    unattended: values.off_session === true || values.error_on_requires_action === true,
    authenticated: false,
  });
  return {
    change: attempted.change,
    answer: () => attemptAnswer(world, attempted, wish.expand),
  };
}

function isConfirmable({ status }: PaymentIntentRecord): boolean {
  return ['requires_payment_method', 'requires_confirmation', 'requires_action'].includes(status);
}

function refusalOf({ status }: PaymentIntentRecord): string {
  if (status === 'succeeded') {
    return 'You cannot confirm this PaymentIntent because it has already succeeded after being previously confirmed.';
  }
  return (
    `You cannot confirm this PaymentIntent because it has a status of ${status}. Only a PaymentIntent ` +
    'with one of the following statuses may be confirmed: requires_confirmation, requires_action.'
  );
}

export type Authentication = 'succeeded' | 'failed';

export type Authenticated =
  | { readonly outcome: 'done'; readonly change: Change }
  | { readonly outcome: 'not-asked'; readonly status: PaymentIntentRecord['status'] }
  | { readonly outcome: 'unknown' };

/**
 * What the customer does on the bank's page, which no API call of the merchant can do:
 * https://docs.stripe.com/payments/3d-secure/authentication-flow. A failed one leaves
 * `payment_intent_authentication_failure` (https://docs.stripe.com/error-codes) and no charge.
 */
export function authenticateCustomer(
  world: World,
  id: string,
  result: Authentication,
): Authenticated {
  const intent = world.account.paymentIntents.get(id);
  if (intent === undefined) return { outcome: 'unknown' };
  const method = world.account.paymentMethods.get(intent.paymentMethod ?? '');
  if (intent.status !== 'requires_action' || method === undefined) {
    return { outcome: 'not-asked', status: intent.status };
  }
  const attempt = {
    intent: { ...intent, action: null },
    method,
    at: world.now(),
    request: null,
    settleAfterMs: world.settleAfterMs(),
    authorizedForMs: world.authorizedForMs(),
    redirect: null,
    unattended: false,
    authenticated: true,
  };
  if (result === 'succeeded') return { outcome: 'done', change: attemptPayment(attempt).change };
  const failure = {
    code: 'payment_intent_authentication_failure',
    message:
      'The provided PaymentMethod has failed authentication. You can provide payment_method_data or ' +
      'a new PaymentMethod to attempt to fulfill this PaymentIntent again.',
    charge: null,
    paymentMethod: method,
  };
  return { outcome: 'done', change: failPayment(attempt, failure).change };
}
