import type { Stripe } from 'stripe';
import type { LastFailure, PaymentIntentRecord } from '../records/records.ts';
import { renderPaymentMethod } from './render-payment-method.ts';
import { seconds } from './seconds.ts';

/**
 * https://docs.stripe.com/api/payment_intents/object, each field that the package's types require.
 */
export function renderPaymentIntent(record: PaymentIntentRecord): Stripe.PaymentIntent {
  return {
    id: record.id,
    object: 'payment_intent',
    allowed_payment_method_types: null,
    amount: record.amount,
    amount_capturable: 0,
    amount_received: record.amountReceived,
    application: null,
    application_fee_amount: null,
    automatic_payment_methods: record.automatic && {
      allow_redirects: record.automatic.allowRedirects,
      enabled: true,
    },
    canceled_at: record.canceledAt === null ? null : seconds(record.canceledAt),
    cancellation_reason: record.cancellationReason,
    capture_method: record.captureMethod,
    client_secret: record.clientSecret,
    confirmation_method: 'automatic',
    created: seconds(record.created),
    currency: record.currency,
    customer: null,
    customer_account: null,
    description: record.description,
    excluded_payment_method_types: null,
    last_payment_error: record.lastFailure && renderFailure(record.lastFailure),
    latest_charge: record.latestCharge,
    livemode: false,
    managed_payments: null,
    metadata: { ...record.metadata },
    next_action: nextAction(record),
    on_behalf_of: null,
    payment_method: record.paymentMethod,
    payment_method_configuration_details: null,
    payment_method_options: {},
    payment_method_types: [...record.paymentMethodTypes],
    payment_record: null,
    processing: null,
    receipt_email: record.receiptEmail,
    review: null,
    setup_future_usage: null,
    shipping: null,
    source: null,
    statement_descriptor: null,
    statement_descriptor_suffix: record.statementDescriptorSuffix,
    status: record.status,
    transfer_group: record.transferGroup,
  };
}

/** https://docs.stripe.com/api/errors, as `last_payment_error` and as the body of a 402 hold it. */
function renderFailure(failure: LastFailure): Stripe.PaymentIntent.LastPaymentError {
  return {
    ...(failure.charge !== null && { charge: failure.charge }),
    code: failure.code,
    ...(failure.declineCode !== undefined && { decline_code: failure.declineCode }),
    doc_url: `https://docs.stripe.com/error-codes#${failure.code.replaceAll('_', '-')}`,
    message: failure.message,
    payment_method: renderPaymentMethod(failure.paymentMethod),
    type:
      failure.code === 'payment_intent_authentication_failure'
        ? 'invalid_request_error'
        : 'card_error',
  };
}

/**
 * https://docs.stripe.com/payments/3d-secure/authentication-flow: by redirect, or within Stripe.js.
 */
function nextAction({ action }: PaymentIntentRecord): Stripe.PaymentIntent.NextAction | null {
  if (action === null) return null;
  if (action.redirect === null) return { type: 'use_stripe_sdk', use_stripe_sdk: {} };
  const { url, returnUrl: return_url } = action.redirect;
  return { type: 'redirect_to_url', redirect_to_url: { return_url, url } };
}
