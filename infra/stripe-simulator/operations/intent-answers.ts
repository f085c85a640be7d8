import { renderPaymentIntent } from '../render/render-payment-intent.ts';
import { renderPaymentMethod } from '../render/render-payment-method.ts';
import type { LastFailure, PaymentIntentRecord } from '../records/records.ts';
import type { Attempted } from './attempt-payment.ts';
import { renderExpanded } from './expand-object.ts';
import { ok, type Desk } from './operation.ts';
import { errorAnswer, invalidRequest, type Answer } from '../wire/stripe-error.ts';

/** 200 with the intent as the attempt left it, or 402 when the attempt failed. */
export function attemptAnswer(
  desk: Desk,
  { intent, failure }: Attempted,
  expand: readonly string[][],
): Answer {
  if (failure !== null) return declinedAnswer(intent, failure);
  return ok(renderExpanded(desk.account, intent, expand));
}

/** 402: https://docs.stripe.com/declines, with the intent as the failure left it. */
function declinedAnswer(intent: PaymentIntentRecord, failure: LastFailure): Answer {
  return errorAnswer(
    402,
    {
      type: 'card_error',
      code: failure.code,
      message: failure.message,
      ...(failure.declineCode !== undefined && { decline_code: failure.declineCode }),
      ...(failure.charge !== null && { charge: failure.charge }),
      payment_intent: renderPaymentIntent(intent),
      payment_method: renderPaymentMethod(failure.paymentMethod),
    },
    { retry: 'no' },
  );
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
