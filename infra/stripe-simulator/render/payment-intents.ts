import type { Stripe } from 'stripe';
import type {
  ChargeRecord,
  LastFailure,
  PaymentIntentRecord,
  PaymentMethodRecord,
} from '../records.ts';
import { balanceTransactionIdOf } from '../store/account.ts';
import { testMethodOf, type TestMethod } from '../test-payment-methods.ts';

/**
 * https://docs.stripe.com/api/payment_intents/object, each field that the package's types require.
 */
export function renderPaymentIntent(record: PaymentIntentRecord): Stripe.PaymentIntent {
  return {
    id: record.id,
    object: 'payment_intent',
    allowed_payment_method_types: null,
    amount: record.amount,
    amount_capturable: record.amountCapturable,
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

/** https://docs.stripe.com/api/charges/object, each field that the package's types require. */
export function renderCharge(record: ChargeRecord): Stripe.Charge {
  const paid = record.status === 'succeeded';
  return {
    id: record.id,
    object: 'charge',
    amount: record.amount,
    amount_captured: record.amountCaptured,
    amount_refunded: record.amountRefunded,
    application: null,
    application_fee: null,
    application_fee_amount: null,
    balance_transaction: record.captured ? balanceTransactionIdOf(record) : null,
    billing_details: noBillingDetails,
    calculated_statement_descriptor: null,
    captured: record.captured,
    created: seconds(record.created),
    currency: record.currency,
    customer: null,
    description: record.description,
    disputed: record.disputed,
    failure_balance_transaction: null,
    failure_code: record.failure?.code ?? null,
    failure_message: record.failure?.message ?? null,
    fraud_details: {},
    livemode: false,
    metadata: { ...record.metadata },
    on_behalf_of: null,
    outcome: outcome(record),
    paid,
    payment_intent: record.paymentIntent,
    payment_method: record.paymentMethod.id,
    payment_method_details: details(record),
    receipt_email: record.receiptEmail,
    receipt_number: null,
    receipt_url: null,
    refunded: record.amountRefunded === record.amount,
    review: null,
    shipping: null,
    source: null,
    source_transfer: null,
    statement_descriptor: null,
    statement_descriptor_suffix: record.statementDescriptorSuffix,
    status: record.status,
    transfer_data: null,
    transfer_group: record.transferGroup,
  };
}

function outcome({ status, failure }: ChargeRecord): Stripe.Charge.Outcome {
  const none = { advice_code: null, network_advice_code: null, network_decline_code: null };
  if (status !== 'failed') {
    const seller_message = status === 'pending' ? 'Payment pending.' : 'Payment complete.';
    const type = 'authorized';
    return { ...none, network_status: 'approved_by_network', reason: null, seller_message, type };
  }
  return {
    ...none,
    network_status: 'declined_by_network',
    reason: failure?.declineCode ?? failure?.code ?? null,
    seller_message: failure?.message ?? null,
    type: 'issuer_declined',
  };
}

function details({
  paymentMethod,
  captureBefore,
}: ChargeRecord): Stripe.Charge.PaymentMethodDetails {
  const method = testMethodOf(paymentMethod);
  if (method.type === 'us_bank_account') {
    return {
      type: 'us_bank_account',
      us_bank_account: {
        account_holder_type: 'individual',
        account_type: 'checking',
        bank_name: 'STRIPE TEST BANK',
        fingerprint: null,
        last4: method.last4,
        payment_reference: null,
        routing_number: '110000000',
      },
    };
  }
  return {
    type: 'card',
    card: {
      amount_authorized: null,
      authorization_code: null,
      brand: method.brand,
      ...(captureBefore !== null && { capture_before: seconds(captureBefore) }),
      checks: { address_line1_check: null, address_postal_code_check: null, cvc_check: null },
      country: 'US',
      electronic_commerce_indicator: null,
      ...cardExpiry,
      funding: 'credit',
      installments: null,
      last4: method.last4,
      mandate: null,
      network: method.brand,
      network_transaction_id: null,
      regulated_status: 'unregulated',
      three_d_secure: null,
      transaction_link_id: null,
      wallet: null,
    },
  };
}

/**
 * https://docs.stripe.com/api/payment_methods/object, each field that the package's types require.
 */
export function renderPaymentMethod(record: PaymentMethodRecord): Stripe.PaymentMethod {
  const method = testMethodOf(record);
  return {
    id: record.id,
    object: 'payment_method',
    allow_redisplay: 'unspecified',
    billing_details: noBillingDetails,
    created: seconds(record.created),
    customer: null,
    customer_account: null,
    livemode: false,
    metadata: {},
    type: method.type,
    ...(method.type === 'card' ? { card: renderCard(method) } : { us_bank_account: bank(method) }),
  };
}

/** A test method has no person behind it. */
const noBillingDetails = {
  address: { city: null, country: null, line1: null, line2: null, postal_code: null, state: null },
  email: null,
  name: null,
  phone: null,
  tax_id: null,
};

/** All test cards are good for years; Stripe's are too. */
const cardExpiry = { exp_month: 12, exp_year: 2034 };

function renderCard(method: TestMethod): Stripe.PaymentMethod.Card {
  return {
    brand: method.brand,
    checks: { address_line1_check: null, address_postal_code_check: null, cvc_check: null },
    country: 'US',
    display_brand: method.brand,
    ...cardExpiry,
    fingerprint: null,
    funding: 'credit',
    generated_from: null,
    last4: method.last4,
    networks: { available: [method.brand], preferred: null },
    regulated_status: 'unregulated',
    three_d_secure_usage: { supported: true },
    wallet: null,
  };
}

function bank(method: TestMethod): Stripe.PaymentMethod.UsBankAccount {
  return {
    account_holder_type: 'individual',
    account_type: 'checking',
    bank_name: 'STRIPE TEST BANK',
    financial_connections_account: null,
    fingerprint: null,
    last4: method.last4,
    networks: { preferred: 'ach', supported: ['ach'] },
    routing_number: '110000000',
    status_details: {},
  };
}

/** Stripe's timestamps are whole seconds since 1970. */
export function seconds(ms: number): number {
  return Math.floor(ms / 1_000);
}
