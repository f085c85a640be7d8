import { loadSql, type Queryable } from '@triplock/postgres';
import {
  journalKinds,
  ProviderError,
  type JournalKind,
  type JournalRow,
  type ProviderJournal,
} from '@triplock/provider';

const readWalk = loadSql(import.meta.url, 'sql/read-walk.sql');
const restartWalk = loadSql(import.meta.url, 'sql/restart-walk.sql');
const recordPage = loadSql(import.meta.url, 'sql/record-page.sql');
const endWholeWalk = loadSql(import.meta.url, 'sql/end-whole-walk.sql');
const lookAgain = loadSql(import.meta.url, 'sql/look-again.sql');
const doubtRefunds = loadSql(import.meta.url, 'sql/doubt-refunds.sql');
const forgetOne = loadSql(import.meta.url, 'sql/forget-one.sql');
const ownIntents = loadSql(import.meta.url, 'sql/own-intents.sql');
const noteReading = loadSql(import.meta.url, 'sql/note-reading.sql');

/** Where the copy is kept, and what it is a copy of. */
export type BookParts = { database: Queryable; books: ProviderJournal };

/**
 * The provider's clocks may differ by so much, so that something older appears behind a newer one.
 */
const overlapMs = 60_000;

/** What does not agree is asked about one by one; what is more than this, by the next audit. */
const doubtfulMax = 100;

/**
 * Refunds that agree and may not for ever, per audit: it takes seconds, and tens of thousands a
 * day.
 */
const reviewedMax = 50;

/**
 * Brings the copy of the provider's books up to date: what is new since the last time, what does
 * not agree with the ledger, and some refunds, in turn, that may have been sent back since.
 * Everything that the provider had shown to any caller before is in it then. Any number may
 * walk at once, and one that was interrupted is gone on with.
 */
export async function walkProviderBook(parts: BookParts): Promise<void> {
  for (const kind of journalKinds) await walk(parts, kind);
  await readAgain(parts, await parts.database.query<Doubtful>(lookAgain, [doubtfulMax]));
  await readAgain(parts, await parts.database.query<Doubtful>(doubtRefunds, [reviewedMax]));
}

type Doubtful = { kind: JournalKind; id: string };

async function readAgain({ database, books }: BookParts, doubtful: Doubtful[]): Promise<void> {
  for (const { kind, id } of doubtful) {
    const read = await books.read(kind, id);
    if (read === undefined) await database.query(forgetOne, [kind, id]);
    else await database.query(noteReading, [JSON.stringify(rowOf(read))]);
  }
}

type WalkRow = { cursor: string | null; knownUntil: Date };

async function walk({ database, books }: BookParts, kind: JournalKind): Promise<void> {
  // A walk that somebody began earlier may have passed what is newer than its beginning.
  let beganHere = false;
  for (;;) {
    const [row] = await database.query<WalkRow>(readWalk, [kind]);
    const { cursor, knownUntil } = row!;
    beganHere ||= cursor === null;
    const since = new Date(knownUntil.getTime() - overlapMs);
    const page = await books.list({ kind, since, ...(cursor === null ? {} : { after: cursor }) });
    if (page.outcome === 'unknown-cursor') {
      await database.query(restartWalk, [kind, cursor]);
      continue;
    }
    const rows = JSON.stringify((await known(database, page.rows)).map(rowOf));
    const next = page.next ?? null;
    const parameters = [kind, rows, cursor, next, knownUntil];
    const [moved] = await database.query<{ everythingSince: Date | null }>(recordPage, parameters);
    if (moved === undefined || next !== null) continue;
    const { everythingSince } = moved;
    if (everythingSince !== null) await database.query(endWholeWalk, [kind, everythingSince]);
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
  const own = await database.query<{ id: string }>(ownIntents, [intents]);
  const isOwn = new Set(own.map(({ id }) => id));
  return rows.filter(({ status, intentId }) => status !== 'unknown' || isOwn.has(intentId ?? ''));
}

/** @throws ProviderError for a row of which nobody can say what it means for money. */
function rowOf(row: JournalRow) {
  const { kind, id, status, amount, currency, createdAt, intentId, txnId, partnerId } = row;
  if (status === 'unknown') {
    const type = 'unknown_status';
    throw new ProviderError({ type, code: id, statusCode: undefined, requestId: undefined });
  }
  const ours = txnId === undefined ? {} : { txn_id: txnId, partner_id: partnerId };
  return {
    ...{ kind, id, status, amount: Number(amount), currency, created_at: createdAt },
    ...(intentId === undefined ? {} : { intent_id: intentId }),
    ...ours,
  };
}
