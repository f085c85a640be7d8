import { loadStatements, type Queryable } from '@triplock/postgres';
import {
  journalKinds,
  ProviderError,
  type JournalKind,
  type JournalRow,
  type ProviderJournal,
} from '@triplock/provider';
import type { OpenedJournal } from '@triplock/providers';
import { shareReads, type Logger } from '@triplock/runtime';
import type { ProviderName } from '@triplock/payments';

const sql = loadStatements(import.meta.url, 'provider-journal.sql', [
  'asksAProvider',
  'readWalked',
  'beginWalks',
  'beginWholeWalk',
  'readWalk',
  'restartWalk',
  'recordPage',
  'endWholeWalk',
  'ownIntents',
  'findDoubtful',
  'findEndedToReview',
  'findUnfinishedToReview',
  'noteRead',
  'forgetOne',
]);

/** A part that could not be asked, so that nothing is known of what it would have shown. */
export type NotCompared = { why: string; next: string } & (
  { part: 'provider'; provider: ProviderName } | { part: 'claims' }
);

/** The same, and since when. */
export type Unasked = { because: NotCompared; since: Date };

/** What bringing the copy up to date came to. */
export type CaughtUp =
  | { outcome: 'compared' }
  /** Nobody was ever to charge anything, so there is nothing to ask. */
  | { outcome: 'nothing-to-compare' }
  /** Of some providers; what others have is known. */
  | { outcome: 'not-compared'; unasked: readonly Unasked[] };

/** The auditor's copy of the providers' journals. */
export type JournalCopy = {
  /**
   * Brings it up to date with what the providers had when this was called. Calls that come while
   * one is under way share the next.
   */
  catchUp(): Promise<CaughtUp>;
  /** Has the next call read everything again, however old, and forget what is no longer there. */
  doubtEverything(): Promise<void>;
};

/** What is copied, and to where. */
export type JournalSource = {
  database: Queryable;
  /** Of every provider; one without a journal cannot be asked here. */
  journals: readonly OpenedJournal[];
  logger: Logger;
};

/** The copy in the auditor's own schema. */
export function openJournalCopy(source: JournalSource): JournalCopy {
  return {
    catchUp: shareReads(() => catchUp(source)),
    doubtEverything: async () => void (await source.database.query(sql.beginWholeWalk)),
  };
}

/** One after the other; a provider that is away keeps none of the others from being asked. */
async function catchUp({ journals, ...source }: JournalSource): Promise<CaughtUp> {
  const caughtUp: CaughtUp[] = [];
  for (const opened of journals) caughtUp.push(await catchUpWith(opened, source));
  const unasked = caughtUp.flatMap((each) => (each.outcome === 'not-compared' ? each.unasked : []));
  if (unasked.length > 0) return { outcome: 'not-compared', unasked };
  const isNothing = caughtUp.every(({ outcome }) => outcome === 'nothing-to-compare');
  return { outcome: isNothing ? 'nothing-to-compare' : 'compared' };
}

async function catchUpWith(
  { provider, title, journal, lacks, mayBeUndone, nextStep }: OpenedJournal,
  { database, logger }: Omit<JournalSource, 'journals'>,
): Promise<CaughtUp> {
  const [row] = await database.query<{ asks: boolean }>(sql.asksAProvider, [provider]);
  if (!row!.asks) return { outcome: 'nothing-to-compare' };
  const notCompared = async (why: string, next: string): Promise<CaughtUp> => {
    const [read] = await database.query<{ walkedAt: Date }>(sql.readWalked, [provider]);
    const because = { part: 'provider', provider, why, next } as const;
    return { outcome: 'not-compared', unasked: [{ because, since: read!.walkedAt }] };
  };
  if (journal === undefined) {
    const next = 'give it one that may read, and audit again';
    return notCompared(`the auditor has no ${lacks.join(' and no ')}`, next);
  }
  try {
    await walkJournal({ database, journal, provider, mayBeUndone });
    return { outcome: 'compared' };
  } catch (error) {
    // A provider that cannot be asked is a finding; a database that is away is none.
    if (!(error instanceof ProviderError)) throw error;
    logger.warn({ err: error, provider }, 'the journal of a provider could not be read');
    return notCompared(`${title} did not answer: ${error.message}`, nextStep(error));
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
 * What agrees and may not for ever, per audit: it takes seconds, and tens of thousands a day. As
 * many of what is not final.
 */
const reviewedMax = 50;

type Copying = {
  database: Queryable;
  journal: ProviderJournal;
  provider: ProviderName;
} & Pick<OpenedJournal, 'mayBeUndone'>;

/**
 * Brings the copy of one provider's journal up to date: what is new since the last time, what does
 * not agree with the ledger, what is not final, and some of what has ended, one after the other,
 * that may have been undone since. Everything that the provider had shown to any caller before is
 * in it then. Any number may walk at once, and one that was interrupted is gone on with.
 */
export async function walkJournal(copying: Copying): Promise<void> {
  const { database, provider, mayBeUndone } = copying;
  await database.query(sql.beginWalks, [provider, journalKinds]);
  for (const kind of journalKinds) await walk(copying, kind);
  const find = (statement: string, rowsMax: number) =>
    database.query<ById>(statement, [rowsMax, provider]);
  const doubtful = await find(sql.findDoubtful, doubtfulMax);
  await readAgain(copying, doubtful, performance.now() + doubtfulMs);
  await readAgain(copying, await find(sql.findUnfinishedToReview, reviewedMax));
  const ended = [reviewedMax, provider, mayBeUndone];
  await readAgain(copying, await database.query<ById>(sql.findEndedToReview, ended));
}

type ById = { kind: JournalKind; id: string };

async function readAgain(
  { database, journal, provider }: Omit<Copying, 'mayBeUndone'>,
  doubtful: readonly ById[],
  until = Number.POSITIVE_INFINITY,
): Promise<void> {
  for (const { kind, id } of doubtful) {
    if (performance.now() >= until) return;
    const read = await journal.read(kind, id);
    if (read === undefined) await database.query(sql.forgetOne, [kind, id, provider]);
    else await database.query(sql.noteRead, [JSON.stringify(rowOf(read)), provider]);
  }
}

type WalkRow = { cursor: string | null; knownUntil: Date };

async function walk(
  { database, journal, provider }: Omit<Copying, 'mayBeUndone'>,
  kind: JournalKind,
): Promise<void> {
  // A walk that somebody began earlier may have passed what is newer than its beginning.
  let beganHere = false;
  for (;;) {
    const [row] = await database.query<WalkRow>(sql.readWalk, [kind, provider]);
    const { cursor, knownUntil } = row!;
    beganHere ||= cursor === null;
    const since = new Date(knownUntil.getTime() - overlapMs);
    const page = await journal.list({ kind, since, ...(cursor === null ? {} : { after: cursor }) });
    if (page.outcome === 'unknown-cursor') {
      await database.query(sql.restartWalk, [kind, cursor, provider]);
      continue;
    }
    const rows = JSON.stringify((await known({ database, provider }, page.rows)).map(rowOf));
    const next = page.next ?? null;
    const parameters = [kind, rows, cursor, next, knownUntil, provider];
    const [moved] = await database.query<{ everythingSince: Date | null }>(
      sql.recordPage,
      parameters,
    );
    if (moved === undefined || next !== null) continue;
    const { everythingSince } = moved;
    if (everythingSince !== null)
      await database.query(sql.endWholeWalk, [kind, everythingSince, provider]);
    if (beganHere) return;
  }
}

/** Leaves out what is unknown and of an intent that is not ours: it would be left out anyway. */
async function known(
  { database, provider }: Pick<Copying, 'database' | 'provider'>,
  rows: readonly JournalRow[],
): Promise<readonly JournalRow[]> {
  const unknown = rows.filter(({ status }) => status === 'unknown');
  if (unknown.length === 0) return rows;
  const intents = unknown.flatMap(({ intentId }) => intentId ?? []);
  const own = await database.query<{ id: string }>(sql.ownIntents, [intents, provider]);
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
