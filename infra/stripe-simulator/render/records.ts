import type { Stripe } from 'stripe';
import type {
  ChargeRecord,
  EventRecord,
  PaymentMethodRecord,
  RefundRecord,
  ShownRecord,
} from '../records.ts';
import { testMethodOf } from '../test-payment-methods.ts';
import { apiVersion } from '../wire/errors.ts';
import {
  cardExpiry,
  noBillingDetails,
  renderPaymentIntent,
  renderPaymentMethod,
  seconds,
} from './payment-intents.ts';

export type Renderable = ShownRecord | PaymentMethodRecord | EventRecord;
export type Rendered =
  Stripe.PaymentIntent | Stripe.Charge | Stripe.Refund | Stripe.PaymentMethod | RenderedEvent;
/** An event before the package's types tell its kinds apart. */
export type RenderedEvent = Stripe.EventBase;

/** A record as the API shows it. The same record always gives the same bytes. */
export function renderRecord(record: Renderable): Rendered {
  switch (record.kind) {
    case 'payment_intent':
      return renderPaymentIntent(record);
    case 'charge':
      return renderCharge(record);
    case 'refund':
      return renderRefund(record);
    case 'payment_method':
      return renderPaymentMethod(record);
    case 'event':
      return renderEvent(record);
  }
}

/** https://docs.stripe.com/api/events/object */
export function renderEvent(record: EventRecord): RenderedEvent {
  return {
    id: record.id,
    object: 'event',
    api_version: apiVersion,
    created: seconds(record.created),
    data: { object: renderRecord(record.object) },
    livemode: false,
    // How many endpoints have not taken it yet is nothing a consumer may rely on: always one.
    pending_webhooks: 1,
    request: {
      id: record.request?.id ?? null,
      idempotency_key: record.request?.idempotencyKey ?? null,
    },
    type: record.type as Stripe.Event.Type,
  };
}

/** https://docs.stripe.com/api/charges/object, each field that the package's types require. */
function renderCharge(record: ChargeRecord): Stripe.Charge {
  const paid = record.status === 'succeeded';
  return {
    id: record.id,
    object: 'charge',
    amount: record.amount,
    amount_captured: paid ? record.amount : 0,
    amount_refunded: record.amountRefunded,
    application: null,
    application_fee: null,
    application_fee_amount: null,
    balance_transaction: null,
    billing_details: noBillingDetails,
    calculated_statement_descriptor: null,
    captured: paid,
    created: seconds(record.created),
    currency: record.currency,
    customer: null,
    description: record.description,
    disputed: false,
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

function details({ paymentMethod }: ChargeRecord): Stripe.Charge.PaymentMethodDetails {
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

/** https://docs.stripe.com/api/refunds/object, each field that the package's types require. */
export function renderRefund(record: RefundRecord): Stripe.Refund {
  return {
    id: record.id,
    object: 'refund',
    amount: record.amount,
    balance_transaction: null,
    charge: record.charge,
    created: seconds(record.created),
    currency: record.currency,
    customer: null,
    customer_account: null,
    ...(record.failureReason !== null && { failure_reason: record.failureReason }),
    metadata: { ...record.metadata },
    payment_intent: record.paymentIntent,
    payment_method: null,
    reason: record.reason,
    receipt_number: null,
    source_transfer_reversal: null,
    status: record.status,
    transfer_reversal: null,
  };
}
