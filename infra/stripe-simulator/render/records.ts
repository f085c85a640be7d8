import type { Stripe } from 'stripe';
import type {
  ChargeRecord,
  EventRecord,
  PaymentMethodRecord,
  RefundRecord,
  ShownRecord,
} from '../records.ts';
import { testMethodOf } from '../test-payment-methods.ts';
import { apiVersion, invalidRequest } from '../wire/errors.ts';
import type { Account } from '../store/account.ts';
import { refuse, took, type Read } from '../wire/params.ts';
import {
  cardExpiry,
  noBillingDetails,
  renderPaymentIntent,
  renderPaymentMethod,
  seconds,
} from './payment-intents.ts';

export type Renderable = ShownRecord | PaymentMethodRecord | EventRecord;
type Rendered =
  Stripe.PaymentIntent | Stripe.Charge | Stripe.Refund | Stripe.PaymentMethod | RenderedEvent;
/** An event before the package's types tell its kinds apart. */
type RenderedEvent = Stripe.EventBase;

/** A record as the API shows it. The same record always gives the same bytes. */
function renderRecord(record: Renderable): Rendered {
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

type Kind = Renderable['kind'];

/** What can be expanded in each kind of object: https://docs.stripe.com/expand */
const expandable: Readonly<Record<Kind, Readonly<Record<string, Kind>>>> = {
  payment_intent: { latest_charge: 'charge', payment_method: 'payment_method' },
  charge: { payment_intent: 'payment_intent', refunds: 'refund' },
  refund: { charge: 'charge', payment_intent: 'payment_intent' },
  payment_method: {},
  event: {},
};

/** "Expansions have a maximum depth of four levels." */
const depthMax = 4;

/** Refuses paths that lead nowhere; for a list they begin with `data.`, and that is taken off. */
export function readExpand(
  kind: Kind,
  paths: readonly string[] | undefined,
  prefix: '' | 'data.' = '',
): Read<readonly string[][]> {
  const steps: string[][] = [];
  for (const path of paths ?? []) {
    const parts = path.startsWith(prefix) ? path.slice(prefix.length).split('.') : [];
    let at: Kind | undefined = parts.length === 0 || parts.length > depthMax ? undefined : kind;
    for (const part of parts) at = at && expandable[at][part];
    if (at === undefined) {
      const message = `This property cannot be expanded (${path}).`;
      return refuse(invalidRequest(message, { param: 'expand' }));
    }
    steps.push(parts);
  }
  return took(steps);
}

/** The record as the API shows it, with what was asked for in place of its id. */
export function renderExpanded(
  account: Account,
  record: Renderable,
  paths: readonly string[][],
): Rendered {
  const shown = renderRecord(record);
  for (const [first, ...rest] of paths) {
    if (first === undefined) continue;
    const fields = shown as unknown as Record<string, unknown>;
    const deeper = paths.filter(([each]) => each === first).map((path) => path.slice(1));
    if (first === 'refunds') fields[first] = refundsOf(account, record);
    const id = fields[first];
    const inner = typeof id === 'string' ? findById(account, id) : undefined;
    if (inner !== undefined) {
      fields[first] = renderExpanded(account, inner, rest.length > 0 ? deeper : []);
    }
  }
  return shown;
}

function refundsOf(account: Account, record: Renderable): Stripe.ApiList<Stripe.Refund> {
  const intent = record.kind === 'charge' ? record.paymentIntent : '';
  const refunds = account.refundsOf(intent).filter(({ charge }) => charge === record.id);
  const data = refunds.map(renderRefund).reverse();
  return { object: 'list', data, has_more: false, url: `/v1/charges/${record.id}/refunds` };
}

function findById(account: Account, id: string): Renderable | undefined {
  return (
    account.paymentIntents.get(id) ??
    account.charges.get(id) ??
    account.refunds.get(id) ??
    account.paymentMethods.get(id)
  );
}
