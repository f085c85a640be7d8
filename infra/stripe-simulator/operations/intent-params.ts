import {
  newId,
  type PaymentIntentRecord,
  type PaymentMethodRecord,
  type Redirect,
} from '../records.ts';
import { renderPaymentIntent } from '../render/payment-intents.ts';
import { testMethodOf, testPaymentMethods } from '../test-payment-methods.ts';
import { invalidRequest, resourceMissing, type Answer } from '../wire/errors.ts';
import {
  flag,
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

/** Manual confirmation is refused: it is not simulated. */
export const intentParams = {
  ...attemptParams,
  ...describingParams,
  confirm: flag,
  payment_method_types: texts,
  automatic_payment_methods: nested({ enabled: flag, allow_redirects: oneOf(['always', 'never']) }),
  capture_method: oneOf(['automatic', 'automatic_async', 'manual']),
  confirmation_method: oneOf(['automatic']),
} as const;

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

/**
 * Whether an intent can be paid with this method at all; a bank debit is in dollars, and at once.
 */
export function checkMethodFits(
  method: PaymentMethodRecord,
  intent: {
    paymentMethodTypes: readonly string[];
    currency: string;
    captureMethod: PaymentIntentRecord['captureMethod'] | undefined;
  },
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
  if (type !== 'card' && intent.captureMethod === 'manual') {
    const message = `The payment method type ${type} does not support capture_method: manual.`;
    return refuse(invalidRequest(message, { param: 'capture_method' }));
  }
  return took(method);
}

/**
 * 400 `payment_intent_unexpected_state`: "The PaymentIntent's state was incompatible with the
 * operation you were trying to perform" (https://docs.stripe.com/error-codes). It holds the intent,
 * so that the caller learns the state without asking again.
 */
export function unexpectedState(intent: PaymentIntentRecord, message: string): Answer {
  return invalidRequest(message, {
    code: 'payment_intent_unexpected_state',
    payment_intent: renderPaymentIntent(intent),
  });
}

/** What confirming without a payment method is answered with. */
export const missingMethod =
  "You cannot confirm this PaymentIntent because it's missing a payment method. You can either update " +
  'the PaymentIntent with a payment method and then confirm it again, or confirm it again directly ' +
  'with a payment method or ConfirmationToken.';

/**
 * The page at which the customer of this intent authenticates, when there is somewhere to return
 * to.
 */
export function redirectOf(world: World, id: string, returnUrl: string | null): Redirect | null {
  if (returnUrl === null) return null;
  return { url: `${world.publicUrl()}/_simulator/authenticate/${id}`, returnUrl };
}
