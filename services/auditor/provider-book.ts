import { loadSql, type Queryable } from '@triplock/postgres';
import { ProviderError, type ProviderJournal } from '@triplock/provider';
import { shareReads, type Logger } from '@triplock/runtime';
import type { NotCompared } from './audit-result.ts';
import { walkProviderBook } from './walk-provider-book.ts';

const asksAProvider = loadSql(import.meta.url, 'sql/asks-a-provider.sql');
const beginWholeWalk = loadSql(import.meta.url, 'sql/begin-whole-walk.sql');
const readWalked = loadSql(import.meta.url, 'sql/read-walked.sql');

/** What bringing the copy up to date came to. */
export type BookSight =
  | { outcome: 'compared' }
  /** No card was ever to be charged, so there is nothing to ask. */
  | { outcome: 'nothing-to-compare' }
  | { outcome: 'not-compared'; because: NotCompared; since: Date };

/** The auditor's copy of the provider's books. */
export type ProviderBook = {
  /**
   * Brings it up to date with what the provider had when this was called. Calls that come while one
   * is under way share the next.
   */
  catchUp(): Promise<BookSight>;
  /** Has the next call read everything again, however old, and forget what is no longer there. */
  doubtEverything(): Promise<void>;
};

/** What a copy needs; without `books` there is no provider to ask. */
export type ProviderBookParts = {
  database: Queryable;
  books: ProviderJournal | undefined;
  logger: Logger;
};

/** The copy in the auditor's own schema. */
export function openProviderBook(parts: ProviderBookParts): ProviderBook {
  return {
    catchUp: shareReads(() => catchUp(parts)),
    doubtEverything: async () => void (await parts.database.query(beginWholeWalk)),
  };
}

async function catchUp({ database, books, logger }: ProviderBookParts): Promise<BookSight> {
  const [row] = await database.query<{ asks: boolean }>(asksAProvider);
  if (!row!.asks) return { outcome: 'nothing-to-compare' };
  if (books === undefined) {
    const why = 'the auditor has no STRIPE_API_KEY';
    return notCompared(database, { why, next: 'give it one that may read, and audit again' });
  }
  try {
    await walkProviderBook({ database, books });
    return { outcome: 'compared' };
  } catch (error) {
    // A provider that cannot be asked is told of; a database that is away is nobody's verdict.
    if (!(error instanceof ProviderError)) throw error;
    logger.warn({ err: error }, 'the books of the provider could not be read');
    return notCompared(database, {
      why: `Stripe did not answer: ${error.message}`,
      next: nextStep(error),
    });
  }
}

async function notCompared(
  database: Queryable,
  told: Omit<NotCompared, 'part'>,
): Promise<BookSight> {
  const [row] = await database.query<{ walkedAt: Date }>(readWalked);
  return {
    outcome: 'not-compared',
    because: { part: 'provider', ...told },
    since: row!.walkedAt,
  };
}

function nextStep({ statusCode }: ProviderError): string {
  switch (statusCode) {
    case 401:
      return 'give the auditor a STRIPE_API_KEY that Stripe knows, and audit again';
    case 403:
      return 'let its key read PaymentIntents and Charges and Refunds, and audit again';
    case 429:
      return 'lower PROVIDER_READS_PER_SECOND of the auditor, and audit again';
    case undefined:
      return 'see that Stripe can be reached at STRIPE_API_URL, and audit again';
    default:
      return 'audit again when Stripe is well (status.stripe.com)';
  }
}
