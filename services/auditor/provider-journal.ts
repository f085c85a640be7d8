import { loadStatements, type Queryable } from '@triplock/postgres';
import {
  journalKinds,
  ProviderError,
  type JournalKind,
  type JournalRow,
  type ProviderJournal,
} from '@triplock/provider';
import { shareReads, type Logger } from '@triplock/runtime';

const sql = loadStatements(import.meta.url, 'provider-journal.sql', [
  'asksAProvider',
  'readWalked',
  'beginWholeWalk',
  'readWalk',
  'restartWalk',
  'recordPage',
  'endWholeWalk',
  'ownIntents',
  'findDoubtful',
  'findRefundsToReview',
  'findUnfinishedToReview',
  'noteRead',
  'forgetOne',
]);

/** A part that could not be asked, so that nothing is known of what it would have shown. */
export type NotCompared = { part: 'provider' | 'claims'; why: string; next: string };

/** What bringing the copy up to date came to. */
export type CaughtUp =
  | { outcome: 'compared' }
  /** No card was ever to be charged, so there is nothing to ask. */
  | { outcome: 'nothing-to-compare' }
  | { outcome: 'not-compared'; because: NotCompared; since: Date };

/** The auditor's copy of the provider's journal. */
export type JournalCopy = {
  /**
   * Brings it up to date with what the provider had when this was called. Calls that come while one
   * is under way share the next.
   */
  catchUp(): Promise<CaughtUp>;
  /** Has the next call read everything again, however old, and forget what is no longer there. */
  doubtEverything(): Promise<void>;
};

/** What is copied, and to where; without `journal` there is no provider to ask. */
export type JournalSource = {
  database: Queryable;
  journal: ProviderJournal | undefined;
  logger: Logger;
};

/** The copy in the auditor's own schema. */
export function openJournalCopy(source: JournalSource): JournalCopy {
  return {
    catchUp: shareReads(() => catchUp(source)),
    doubtEverything: async () => void (await source.database.query(sql.beginWholeWalk)),
  };
}

async function catchUp({ database, journal, logger }: JournalSource): Promise<CaughtUp> {
  const [row] = await database.query<{ asks: boolean }>(sql.asksAProvider);
  if (!row!.asks) return { outcome: 'nothing-to-compare' };
  if (journal === undefined) {
    const why = 'the auditor has no STRIPE_API_KEY';
    return notCompared(database, { why, next: 'give it one that may read, and audit again' });
  }
  try {
    await walkJournal({ database, journal });
    return { outcome: 'compared' };
  } catch (error) {
    // A provider that cannot be asked is a finding; a database that is away is none.
    if (!(error instanceof ProviderError)) throw error;
    logger.warn({ err: error }, 'the journal of the provider could not be read');
    return notCompared(database, {
      why: `Stripe did not answer: ${error.message}`,
      next: nextStep(error),
    });
  }
}

async function notCompared(
  database: Queryable,
  reason: Omit<NotCompared, 'part'>,
): Promise<CaughtUp> {
  const [row] = await database.query<{ walkedAt: Date }>(sql.readWalked);
  return {
    outcome: 'not-compared',
    because: { part: 'provider', ...reason },
    since: row!.walkedAt,
  };
}

function nextStep({ statusCode }: ProviderError): string {
  switch (statusCode) {
    case 401:
      return 'give the auditor a STRIPE_API_KEY that Stripe knows, and audit again';
    case 403:
      return 'let its key read PaymentIntents, Charges and Refunds, and Disputes, and audit again';
    case 429:
      return 'lower PROVIDER_READS_PER_SECOND of the auditor, and audit again';
    case undefined:
      return 'see that Stripe can be reached at STRIPE_API_URL, and audit again';
    default:
      return 'audit again when Stripe is well (status.stripe.com)';
  }
}

/**
 * The provider's clocks may differ by so much, so that something older appears behind a newer one.
 */
const overlapMs = 60_000;

/**
 * What does not agree is asked about one by one, for so long; what is left then, by the next audit.
 * A capture is among it, because no list by time shows it once its charge was listed.
 */
const doubtfulMs = 30_000;

/** More than anybody can be asked about in that time. */
const doubtfulMax = 10_000;

/**
 * Refunds that agree and may not for ever, per audit: it takes seconds, and tens of thousands a
 * day. As many of what is not final.
 */
const reviewedMax = 50;

type Copying = { database: Queryable; journal: ProviderJournal };

/**
 * Brings the copy of the provider's journal up to date: what is new since the last time, what does
 * not agree with the ledger, what is not final, and some refunds, one after the other, that may
 * have been sent back since. Everything that the provider had shown to any caller before is in it
 * then. Any number may walk at once, and one that was interrupted is gone on with.
 */
export async function walkJournal(copying: Copying): Promise<void> {
  for (const kind of journalKinds) await walk(copying, kind);
  const { database } = copying;
  const doubtful = await database.query<ById>(sql.findDoubtful, [doubtfulMax]);
  await readAgain(copying, doubtful, performance.now() + doubtfulMs);
  await readAgain(copying, await database.query<ById>(sql.findUnfinishedToReview, [reviewedMax]));
  await readAgain(copying, await database.query<ById>(sql.findRefundsToReview, [reviewedMax]));
}

type ById = { kind: JournalKind; id: string };

async function readAgain(
  { database, journal }: Copying,
  doubtful: readonly ById[],
  until = Number.POSITIVE_INFINITY,
): Promise<void> {
  for (const { kind, id } of doubtful) {
    if (performance.now() >= until) return;
    const read = await journal.read(kind, id);
    if (read === undefined) await database.query(sql.forgetOne, [kind, id]);
    else await database.query(sql.noteRead, [JSON.stringify(rowOf(read))]);
  }
}

type WalkRow = { cursor: string | null; knownUntil: Date };

async function walk({ database, journal }: Copying, kind: JournalKind): Promise<void> {
  // A walk that somebody began earlier may have passed what is newer than its beginning.
  let beganHere = false;
  for (;;) {
    const [row] = await database.query<WalkRow>(sql.readWalk, [kind]);
    const { cursor, knownUntil } = row!;
    beganHere ||= cursor === null;
    const since = new Date(knownUntil.getTime() - overlapMs);
    const page = await journal.list({ kind, since, ...(cursor === null ? {} : { after: cursor }) });
    if (page.outcome === 'unknown-cursor') {
      await database.query(sql.restartWalk, [kind, cursor]);
      continue;
    }
    const rows = JSON.stringify((await known(database, page.rows)).map(rowOf));
    const next = page.next ?? null;
    const parameters = [kind, rows, cursor, next, knownUntil];
    const [moved] = await database.query<{ everythingSince: Date | null }>(
      sql.recordPage,
      parameters,
    );
    if (moved === undefined || next !== null) continue;
    const { everythingSince } = moved;
    if (everythingSince !== null) await database.query(sql.endWholeWalk, [kind, everythingSince]);
    if (beganHere) return;
  }
}

/** Leaves out what is unknown and of an intent that is not ours: it would be left out anyway. */
async function known(
  database: Queryable,
  rows: readonly JournalRow[],
): Promise<readonly JournalRow[]> {
  const unknown = rows.filter(({ status }) => status === 'unknown');
  if (unknown.length === 0) return rows;
  const intents = unknown.flatMap(({ intentId }) => intentId ?? []);
  const own = await database.query<{ id: string }>(sql.ownIntents, [intents]);
  const isOwn = new Set(own.map(({ id }) => id));
  return rows.filter(({ status, intentId }) => status !== 'unknown' || isOwn.has(intentId ?? ''));
}

/** @throws ProviderError for a row of which nobody can say what it means for money. */
function rowOf(row: JournalRow) {
  const { kind, id, status, waitsFor, amount, currency, createdAt, intentId } = row;
  const { txnId, partnerId } = row;
  if (status === 'unknown') {
    const type = 'unknown_status';
    throw new ProviderError({ type, code: id, statusCode: undefined, requestId: undefined });
  }
  const ours = txnId === undefined ? {} : { txn_id: txnId, partner_id: partnerId };
  return {
    kind,
    id,
    status,
    amount: Number(amount),
    currency,
    created_at: createdAt,
    ...(waitsFor === undefined ? {} : { waits_for: waitsFor }),
    ...(intentId === undefined ? {} : { intent_id: intentId }),
    ...ours,
  };
}
