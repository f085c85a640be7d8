import { setTimeout as sleep } from 'node:timers/promises';
import { DelegateBackoff, handleWhen, retry, type IPolicy } from 'cockatiel';
import Stripe from 'stripe';
import type { BookKind, BookPage, BookQuery, ProviderBooks } from '../provider-books.ts';
import { bookRowOf, type Listed } from './book-row.ts';
import { openClient, type StripeOptions } from './open-client.ts';
import { unknownBecause } from './sort-error.ts';

/** How gently the books are read. */
export type BooksOptions = StripeOptions & {
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
 * Stripe's own books by its lists, which, unlike its search, are consistent
 * (docs.stripe.com/search#data-freshness). A restricted key is enough: it needs to read
 * PaymentIntents and Charges and Refunds (docs.stripe.com/keys#limit-access), and nothing else.
 */
export function openStripeBooks(options: BooksOptions): ProviderBooks {
  const stripe = openClient(options);
  const paced = paceOf(options.requestsPerSecondMax);
  const policy = retryPolicy();
  const { pageMax: limit = 100 } = options;
  const ask = <Answer>(call: () => Promise<Answer>) =>
    policy.execute(async () => {
      await paced();
      return call();
    });
  return {
    list: (query) => listPage(query, () => ask(() => pageOf(stripe, query, limit))),
    read: (kind, id) => readOne(() => ask(() => objectOf(stripe, kind, id))),
  };
}

type Page = { data: Listed[]; has_more: boolean };

function pageOf(stripe: Stripe, { kind, since, after }: BookQuery, limit: number): Promise<Page> {
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
    default:
      return kind satisfies never;
  }
}

function objectOf(stripe: Stripe, kind: BookKind, id: string): Promise<Listed> {
  switch (kind) {
    case 'intent':
      return stripe.paymentIntents.retrieve(id);
    case 'charge':
      return stripe.charges.retrieve(id);
    case 'refund':
      return stripe.refunds.retrieve(id);
    default:
      return kind satisfies never;
  }
}

async function listPage({ after }: BookQuery, ask: () => Promise<Page>): Promise<BookPage> {
  try {
    const { data, has_more: more } = await ask();
    const next = more ? data.at(-1)?.id : undefined;
    const rows = data.map(bookRowOf);
    return { outcome: 'page', rows, ...(next === undefined ? {} : { next }) };
  } catch (error) {
    if (after !== undefined && isMissing(error)) return { outcome: 'unknown-cursor' };
    throw tellable(error);
  }
}

async function readOne(ask: () => Promise<Listed>) {
  try {
    return bookRowOf(await ask());
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw tellable(error);
  }
}

function isMissing(error: unknown): boolean {
  const { StripeInvalidRequestError } = Stripe.errors;
  return error instanceof StripeInvalidRequestError && error.code === 'resource_missing';
}

/** The client's own error may carry what no log should. */
function tellable(error: unknown): unknown {
  return unknownBecause(error).error;
}

/** Reading twice does no harm, so whatever may come right by itself is asked again. */
function retryPolicy(): IPolicy {
  const { StripeAPIError, StripeConnectionError, StripeRateLimitError } = Stripe.errors;
  const transient = [StripeAPIError, StripeConnectionError, StripeRateLimitError];
  return retry(
    handleWhen((error) => transient.some((each) => error instanceof each)),
    {
      maxAttempts: retriesMax,
      backoff: new DelegateBackoff(({ attempt, result }) => {
        const error = 'error' in result ? result.error : undefined;
        const askedFor = unknownBecause(error).retryAfterMs ?? 0;
        return Math.min(retryMsMax, Math.max(askedFor, 100 * 2 ** attempt));
      }),
    },
  );
}

/** Resolves for each caller in its turn, so that no more than so many begin in a second. */
function paceOf(perSecondMax: number): () => Promise<void> {
  const apartMs = 1_000 / perSecondMax;
  let nextMs = 0;
  return async () => {
    const nowMs = performance.now();
    nextMs = Math.max(nextMs, nowMs);
    const waitMs = nextMs - nowMs;
    nextMs += apartMs;
    if (waitMs > 0) await sleep(waitMs);
  };
}
