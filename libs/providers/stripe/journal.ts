import { setTimeout as delay } from 'node:timers/promises';
import { isTxnId, type PartnerId } from '@triplock/payments';
import type Stripe from 'stripe';
import {
  nextPage,
  ProviderError,
  type JournalKind,
  type JournalPage,
  type JournalQuery,
  type JournalRow,
  type JournalStatus,
  type ProviderJournal,
} from '@triplock/provider';
import { paceOf } from '@triplock/runtime';
import { openClient, type StripeOptions } from './client.ts';
import { fromStripe } from './currencies.ts';
import { stripePackage } from './package.ts';
import { unknownBecause } from './errors.ts';

/** How gently the journal is read. */
export type JournalOptions = StripeOptions & {
  /**
   * Requests a second at most. Stripe allows 100 reads a second in live mode and 25 in test mode
   * (docs.stripe.com/rate-limits), and whoever charges needs most of them.
   */
  requestsPerSecondMax: number;
  /**
   * Rows of a page: 100 by default, which is the most there can be
   * (docs.stripe.com/api/pagination).
   */
  pageMax?: number;
};

const retriesMax = 3;
const retryMsMax = 5_000;

/**
 * Stripe's own objects by its lists, which, unlike its search, are consistent
 * (docs.stripe.com/search#data-freshness). A restricted key is enough: it needs to read
 * PaymentIntents, Charges and Refunds, and Disputes (docs.stripe.com/keys#limit-access).
 */
export function openStripeJournal(options: JournalOptions): ProviderJournal {
  const stripe = openClient(options);
  const paced = paceOf(options.requestsPerSecondMax);
  const { pageMax: limit = 100 } = options;
  const ask = <Answer>(call: () => Promise<Answer>) =>
    withRetries(async () => {
      await paced();
      return call();
    });
  return {
    list: (query) => listPage(query, () => ask(() => pageOf(stripe, query, limit))),
    read: (kind, id) => readOne(() => ask(() => objectOf(stripe, kind, id))),
  };
}

type Page = { data: Listed[]; has_more: boolean };

function pageOf(
  stripe: Stripe,
  { kind, since, after }: JournalQuery,
  limit: number,
): Promise<Page> {
  const asked = {
    created: { gte: Math.floor(since.getTime() / 1_000) },
    limit,
    ...(after === undefined ? {} : { starting_after: after }),
  };
  switch (kind) {
    case 'intent':
      return stripe.paymentIntents.list(asked);
    case 'charge':
      return stripe.charges.list(asked);
    case 'refund':
      return stripe.refunds.list(asked);
    case 'dispute':
      return stripe.disputes.list(asked);
    default:
      return kind satisfies never;
  }
}

function objectOf(stripe: Stripe, kind: JournalKind, id: string): Promise<Listed> {
  switch (kind) {
    case 'intent':
      return stripe.paymentIntents.retrieve(id);
    case 'charge':
      return stripe.charges.retrieve(id);
    case 'refund':
      return stripe.refunds.retrieve(id);
    case 'dispute':
      return stripe.disputes.retrieve(id);
    default:
      return kind satisfies never;
  }
}

async function listPage({ after }: JournalQuery, ask: () => Promise<Page>): Promise<JournalPage> {
  try {
    const { data, has_more: more } = await ask();
    const next = nextPage({ after, more, last: data.at(-1)?.id });
    const rows = data.filter((listed) => !isLetGo(listed)).map(journalRowOf);
    return { outcome: 'page', rows, ...(next === undefined ? {} : { next }) };
  } catch (error) {
    if (after !== undefined && isMissing(error)) return { outcome: 'unknown-cursor' };
    throw loggable(error);
  }
}

/**
 * What was authorised and not captured is let go by a refund that nobody asked for, which moves no
 * money and so no balance (docs.stripe.com/api/payment_intents/cancel, and /capture for the rest of
 * one in part): it gives nothing back, and no refund of the ledger's has to answer for it.
 */
function isLetGo(listed: Listed): boolean {
  if (listed.object !== 'refund' || listed.status !== 'succeeded') return false;
  return listed.balance_transaction === null && listed.metadata?.['txn_id'] === undefined;
}

async function readOne(ask: () => Promise<Listed>) {
  try {
    return journalRowOf(await ask());
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw loggable(error);
  }
}

function isMissing(error: unknown): boolean {
  const { StripeInvalidRequestError } = stripePackage().errors;
  return error instanceof StripeInvalidRequestError && error.code === 'resource_missing';
}

/** The client's own error may carry what no log should; what is none of its own is no answer. */
function loggable(error: unknown): ProviderError {
  const { error: known } = unknownBecause(error);
  return known instanceof ProviderError ? known : new ProviderError({ type: 'nonsense' });
}

/** What Stripe lists. */
export type Listed = Stripe.PaymentIntent | Stripe.Charge | Stripe.Refund | Stripe.Dispute;

/**
 * An object of Stripe's as a row of the journal, its amount in minor units of ISO 4217.
 *
 * @throws ProviderError for an object of ours whose status is not known here, or whose amount is a
 * fraction of a minor unit, which nothing of ours asks for: what it means for money nobody can say.
 */
export function journalRowOf(listed: Listed): JournalRow {
  const { id, created, metadata } = listed;
  const kind = kindOf(listed);
  const intentId = intentOf(listed);
  const txnId = metadata?.['txn_id'];
  const isOurs = txnId !== undefined && isTxnId(txnId);
  const status = statusOf(listed) ?? 'unknown';
  if (status === 'unknown' && isOurs) {
    const code = `${listed.status} of ${id}`;
    throw new ProviderError({ type: 'unknown_status', code });
  }
  const { amount, currency, exact } = fromStripe({
    amount: amountOf(listed),
    currency: listed.currency,
  });
  if (!exact && isOurs) {
    const code = `${amountOf(listed)} ${listed.currency} of ${id}`;
    throw new ProviderError({ type: 'fraction_of_a_minor_unit', code });
  }
  return {
    kind,
    id,
    status,
    ...waitsForOf(listed),
    amount,
    currency,
    createdAt: new Date(created * 1_000),
    ...(intentId === undefined ? {} : { intentId }),
    ...(isOurs ? { txnId, partnerId: (metadata?.['partner_id'] ?? '') as PartnerId } : {}),
  };
}

/**
 * A charge that was not captured is `succeeded` for Stripe, and has only held the money
 * (docs.stripe.com/api/charges/object#charge_object-captured): it is pending, and failed once it
 * was let go.
 */
function statusOf(listed: Listed): JournalStatus | undefined {
  const status = statuses[kindOf(listed)][String(listed.status)];
  const isHeld = listed.object === 'charge' && status === 'succeeded' && !listed.captured;
  if (!isHeld) return status;
  return listed.refunded ? 'failed' : 'pending';
}

/** Of a charge that was captured in part, that part. */
function amountOf(listed: Listed): number {
  return listed.object === 'charge' && listed.captured ? listed.amount_captured : listed.amount;
}

function kindOf({ object }: Listed): JournalKind {
  return object === 'payment_intent' ? 'intent' : object;
}

function intentOf(listed: Listed): string | undefined {
  if (listed.object === 'payment_intent') return listed.id;
  const { payment_intent: intent } = listed;
  return typeof intent === 'string' ? intent : intent?.id;
}

/**
 * docs.stripe.com/payments/paymentintents/lifecycle and /api/charges, /refunds, /disputes/object. A
 * declined intent goes back to `requires_payment_method`; its charges show whether money moved.
 */
const statuses: Readonly<Record<JournalKind, Readonly<Record<string, JournalStatus>>>> = {
  intent: {
    requires_payment_method: 'unconfirmed',
    requires_confirmation: 'unconfirmed',
    requires_action: 'pending',
    processing: 'pending',
    requires_capture: 'pending',
    succeeded: 'succeeded',
    canceled: 'failed',
  },
  charge: { pending: 'pending', succeeded: 'succeeded', failed: 'failed' },
  // Succeeded: the money went back to the customer.
  dispute: {
    needs_response: 'pending',
    under_review: 'pending',
    warning_needs_response: 'pending',
    warning_under_review: 'pending',
    appeal_needs_response: 'pending',
    appeal_under_review: 'pending',
    lost: 'succeeded',
    won: 'failed',
    warning_closed: 'failed',
    prevented: 'failed',
  },
  refund: {
    // Stripe's own type allows it, and it does not mean that it ended.
    null: 'pending',
    pending: 'pending',
    requires_action: 'pending',
    succeeded: 'succeeded',
    failed: 'failed',
    canceled: 'failed',
  },
};

/**
 * docs.stripe.com/payments/paymentintents/lifecycle and /refunds: the customer authenticates, or
 * says where the money shall go; the bank carries a payment or a refund out; the partner captures
 * what is held.
 */
function waitsForOf({ object, status }: Listed): Pick<JournalRow, 'waitsFor'> {
  if (object === 'charge' || object === 'dispute') return {};
  if (status === 'requires_capture') return { waitsFor: 'partner' };
  if (status === 'requires_action') return { waitsFor: 'customer' };
  return status === 'processing' || status === 'pending' ? { waitsFor: 'bank' } : {};
}

/** Asks again what may come right by itself: reading twice does no harm. */
async function withRetries<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  for (let retries = 0; ; retries += 1) {
    try {
      return await ask();
    } catch (error) {
      if (retries === retriesMax || !isTransient(error)) throw error;
      const { retryAfterMs = 0 } = unknownBecause(error);
      await delay(Math.min(retryMsMax, Math.max(retryAfterMs, 200 * 2 ** retries)));
    }
  }
}

function isTransient(error: unknown): boolean {
  const { StripeAPIError, StripeConnectionError, StripeRateLimitError } = stripePackage().errors;
  const transient = [StripeAPIError, StripeConnectionError, StripeRateLimitError];
  return transient.some((each) => error instanceof each);
}
