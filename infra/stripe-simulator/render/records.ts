import type { Stripe } from 'stripe';
import type {
  BalanceTransactionRecord,
  DisputeRecord,
  EventRecord,
  PaymentMethodRecord,
  RefundRecord,
  ShownRecord,
} from '../records.ts';
import { apiVersion, invalidRequest } from '../wire/errors.ts';
import { balanceTransactionIdOf, movementsOf, type Account } from '../store/account.ts';
import { refuse, took, type Read } from '../wire/params.ts';
import {
  renderCharge,
  renderPaymentIntent,
  renderPaymentMethod,
  seconds,
} from './payment-intents.ts';

export type Renderable = ShownRecord | PaymentMethodRecord | BalanceTransactionRecord | EventRecord;
type Rendered =
  | Stripe.PaymentIntent
  | Stripe.Charge
  | Stripe.Refund
  | Stripe.Dispute
  | Stripe.PaymentMethod
  | Stripe.BalanceTransaction
  | RenderedEvent;
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
    case 'dispute':
      return renderDispute(record);
    case 'balance_transaction':
      return renderBalanceTransaction(record);
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

/** https://docs.stripe.com/api/refunds/object, each field that the package's types require. */
function renderRefund(record: RefundRecord): Stripe.Refund {
  return {
    id: record.id,
    object: 'refund',
    amount: record.amount,
    balance_transaction: record.gives === 'captured' ? balanceTransactionIdOf(record) : null,
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

/** Most banks want evidence within 7 to 21 days: https://docs.stripe.com/disputes/responding */
const evidenceSeconds = 7 * 86_400;

/**
 * https://docs.stripe.com/api/disputes/object, each field that the package's types require but
 * evidence, which has no field that could be filled in here.
 */
function renderDispute(record: DisputeRecord): Stripe.Dispute {
  return {
    id: record.id,
    object: 'dispute',
    amount: record.amount,
    balance_transactions: movementsOf(record, record.closedAt ?? record.created).map(
      renderBalanceTransaction,
    ),
    charge: record.charge,
    created: seconds(record.created),
    currency: record.currency,
    enhanced_eligibility_types: [],
    evidence: {} as Stripe.Dispute['evidence'],
    evidence_details: {
      due_by: seconds(record.created) + evidenceSeconds,
      enhanced_eligibility: {},
      has_evidence: false,
      past_due: false,
      submission_count: 0,
      submission_method: 'not_submitted',
    },
    intended_submission_method: null,
    is_charge_refundable: record.status === 'won',
    livemode: false,
    metadata: {},
    payment_intent: record.paymentIntent,
    reason: record.reason,
    status: record.status,
  };
}

/** https://docs.stripe.com/api/balance_transactions/object; money is available at once. */
function renderBalanceTransaction(record: BalanceTransactionRecord): Stripe.BalanceTransaction {
  return {
    id: record.id,
    object: 'balance_transaction',
    amount: record.amount,
    available_on: seconds(record.created),
    balance_type: 'payments',
    created: seconds(record.created),
    currency: record.currency,
    description: null,
    exchange_rate: null,
    fee: 0,
    fee_details: [],
    net: record.amount,
    reporting_category: record.reportingCategory,
    source: record.source,
    status: 'available',
    type: record.type,
  };
}

type Kind = Renderable['kind'];

/** What can be expanded in each kind of object: https://docs.stripe.com/expand */
const expandable: Readonly<Record<Kind, Readonly<Record<string, Kind>>>> = {
  payment_intent: { latest_charge: 'charge', payment_method: 'payment_method' },
  charge: {
    payment_intent: 'payment_intent',
    refunds: 'refund',
    balance_transaction: 'balance_transaction',
  },
  refund: {
    charge: 'charge',
    payment_intent: 'payment_intent',
    balance_transaction: 'balance_transaction',
  },
  dispute: { charge: 'charge', payment_intent: 'payment_intent' },
  balance_transaction: {},
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
    account.paymentMethods.get(id) ??
    account.balanceTransactions.get(id)
  );
}
