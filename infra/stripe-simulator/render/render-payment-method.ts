import type { Stripe } from 'stripe';
import type { PaymentMethodRecord } from '../records/records.ts';
import type { TestMethod } from '../records/test-payment-methods.ts';
import { testMethodOf } from '../records/test-method-of.ts';
import { seconds } from './seconds.ts';

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
export const noBillingDetails = {
  address: { city: null, country: null, line1: null, line2: null, postal_code: null, state: null },
  email: null,
  name: null,
  phone: null,
  tax_id: null,
};

/** All test cards are good for years; Stripe's are too. */
export const cardExpiry = { exp_month: 12, exp_year: 2034 };

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
