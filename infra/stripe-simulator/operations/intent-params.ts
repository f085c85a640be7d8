import { amountMax, amountMinOf, amountStepOf } from '../currencies.ts';
import { newId, type PaymentIntentRecord, type PaymentMethodRecord } from '../records.ts';
import { testMethodOf, testPaymentMethods } from '../test-payment-methods.ts';
import { invalidRequest, resourceMissing } from '../wire/errors.ts';
import {
  flag,
  integer,
  metadata,
  nested,
  oneOf,
  refuse,
  text,
  texts,
  took,
  unread,
  url,
  type Read,
} from '../wire/params.ts';
import type { World } from './operation.ts';

/** What both creating with `confirm` and confirming take. */
export const attemptParams = {
  payment_method: text(),
  return_url: url,
  off_session: flag,
  error_on_requires_action: flag,
  receipt_email: text(),
  // A bank debit needs the customer's mandate; that it was given is not looked into.
  mandate_data: unread,
  expand: texts,
} as const;

/** https://docs.stripe.com/api/payment_intents/create, as far as it is simulated. */
export const describingParams = {
  metadata,
  description: text(1_000),
  statement_descriptor_suffix: text(22),
  transfer_group: text(),
} as const;

/** Manual capture and manual confirmation are refused: they are not simulated. */
export const intentParams = {
  ...attemptParams,
  ...describingParams,
  confirm: flag,
  payment_method_types: texts,
  automatic_payment_methods: nested({ enabled: flag, allow_redirects: oneOf(['always', 'never']) }),
  capture_method: oneOf(['automatic', 'automatic_async']),
  confirmation_method: oneOf(['automatic']),
} as const;

/** Above every limit of the API, so that each limit has its own error. */
export const wholeAmount = integer({ min: 1, max: 999_999_999_999 });

/** https://docs.stripe.com/currencies: smallest, largest, and special cases. */
export function checkAmount(amount: number, currency: string): Read<number> {
  const min = amountMinOf(currency);
  const about = { param: 'amount' };
  if (amount < min) {
    const message = `Amount must be at least ${min} in the minor units of ${currency}`;
    return refuse(invalidRequest(message, { code: 'amount_too_small', ...about }));
  }
  if (amount > amountMax) {
    const message = `Amount must be no more than ${amountMax} in the minor units of ${currency}`;
    return refuse(invalidRequest(message, { code: 'amount_too_large', ...about }));
  }
  const step = amountStepOf(currency);
  if (amount % step !== 0) {
    const message = `Invalid amount: in ${currency} it must be a multiple of ${step}`;
    return refuse(invalidRequest(message, about));
  }
  return took(amount);
}

/**
 * The types that Stripe offers by itself in this simulator; a redirecting one is among them there.
 */
export const automaticTypes = ['card', 'us_bank_account'] as const;

/**
 * Since methods that the account has enabled may redirect the customer, confirming on the server
 * needs somewhere to come back to, or the promise of no redirects:
 * https://docs.stripe.com/api/payment_intents/create (automatic_payment_methods.allow_redirects).
 */
export function checkReturnUrl(
  automatic: { allowRedirects: 'always' | 'never' } | null,
  returnUrl: string | undefined,
): Read<string | null> {
  if (automatic?.allowRedirects !== 'always' || returnUrl !== undefined)
    return took(returnUrl ?? null);
  return refuse(
    invalidRequest(
      'This PaymentIntent is configured to accept payment methods enabled in your Dashboard. Because ' +
        'some of these payment methods might redirect your customer off of your page, you must ' +
        "provide a `return_url`. If you don't want to accept redirect-based payment methods, set " +
        '`automatic_payment_methods[enabled]` to `true` and ' +
        '`automatic_payment_methods[allow_redirects]` to `never` when creating Setup Intents and ' +
        'Payment Intents.',
    ),
  );
}

/** The intent that the path names, or a parameter. */
export function findIntent(world: World, id: string, param?: string): Read<PaymentIntentRecord> {
  const intent = world.account.paymentIntents.get(id);
  if (intent !== undefined) return took(intent);
  const what = { kind: 'payment_intent', id, ...(param !== undefined && { param }) };
  return refuse(resourceMissing(what));
}

/**
 * The payment method that a request names: one that is there, or a new one made from a test method
 * (`pm_card_visa` gives a new `pm_…` each time: https://docs.stripe.com/testing).
 */
export function findPaymentMethod(world: World, id: string): Read<PaymentMethodRecord> {
  const known = world.account.paymentMethods.get(id);
  if (known !== undefined) return took(known);
  if (!Object.hasOwn(testPaymentMethods, id)) {
    return refuse(resourceMissing({ kind: 'PaymentMethod', id, param: 'payment_method' }));
  }
  const created = world.now();
  return took({ kind: 'payment_method', id: newId('pm_'), created, testMethod: id });
}

/** Whether an intent can be paid with this method at all; a bank debit is in dollars. */
export function checkMethodFits(
  method: PaymentMethodRecord,
  intent: { paymentMethodTypes: readonly string[]; currency: string },
): Read<PaymentMethodRecord> {
  const { type } = testMethodOf(method);
  const param = 'payment_method';
  if (!intent.paymentMethodTypes.includes(type)) {
    const allowed = intent.paymentMethodTypes.join(', ');
    const message = `The PaymentMethod provided (${type}) is not allowed for this PaymentIntent. It takes: ${allowed}.`;
    return refuse(invalidRequest(message, { param }));
  }
  if (type === 'us_bank_account' && intent.currency !== 'usd') {
    const message = `The currency provided (${intent.currency}) is invalid for us_bank_account: it takes usd.`;
    return refuse(invalidRequest(message, { param: 'currency' }));
  }
  return took(method);
}
