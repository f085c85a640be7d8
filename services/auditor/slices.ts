/**
 * What has come to its end is compared once, in slices of time that are then closed, and each audit
 * looks only at what is behind them, at those that were found otherwise, and at a sample. A crash
 * leaves nothing half done: a slice is closed by one statement after it was compared, and one that
 * was compared and not closed is compared again.
 */
import { loadStatements, type Queryable } from '@triplock/postgres';
import type { Unread, Window } from './checks.ts';
import { differingKeys, type SumRow } from './sums.ts';
import {
  addTotals,
  firstPiece,
  lookAtWindow,
  noTotals,
  type AuditCounts,
  type Compared,
  type DatedFinding,
  type Look,
  type SliceLimits,
  type Totals,
} from './windows.ts';

const sql = loadStatements(import.meta.url, 'slices.sql', [
  'lastSlice',
  'openStretches',
  'stillOpen',
  'closeSlice',
  'readSlice',
  'listDoubted',
  'doubtSlice',
  'trustSlice',
  'beginFullAudit',
  'passSlice',
  'endFullAudit',
]);

/** As production has it. */
export const usualSlices: SliceLimits = {
  rowsMax: 25_000,
  restSeconds: 30,
  closeAfterSeconds: 3_600,
};

/** Is told how far a long audit is, and says when to end it. */
export type Underway = { progress(text: string): void; signal: AbortSignal };

/** Of an audit that nobody watches and nobody ends. */
export const unwatched: Underway = {
  progress: () => undefined,
  signal: new AbortController().signal,
};

/** What all closed slices come to, and how many there are. */
export type Closed = Totals & { nth: number };

/** Reads what all closed slices come to. */
export async function closedSoFar(database: Queryable): Promise<Closed> {
  const [last] = await database.query<Closed>(sql.lastSlice);
  return last ?? { nth: 0, ...noTotals };
}

/** A stretch of time; `rested`: it is so old that no row is expected in it any more. */
export type Stretch = Window & { rested: boolean };

/**
 * What neither a closed slice nor one of the windows that are known covers, oldest first; the last
 * stretch has no end. What has rested is apart from what has not, where windows may be known.
 */
export function openStretches(
  { database, slices }: Pick<Compared, 'database' | 'slices'>,
  known?: readonly Window[],
): Promise<Stretch[]> {
  const parameters = [...boundsOf(known ?? []), known && slices.restSeconds];
  return database.query<Stretch>(sql.openStretches, parameters);
}

/** Those windows of which no closed slice has a part. */
export async function stillOpen<Open extends Window>(
  database: Queryable,
  windows: readonly Open[],
): Promise<Open[]> {
  const open = await database.query<{ nth: number }>(sql.stillOpen, boundsOf(windows));
  return open.map(({ nth }) => windows[nth - 1]!);
}

function boundsOf(windows: readonly Window[]): [string[], string[]] {
  return [windows.map(({ from }) => from), windows.map(({ until }) => until)];
}

/**
 * Closes every slice that can be. Of what is newest only whole slices are closed: so many rows, or
 * a day. One in which something is wrong, or has not come to its end, stays open; later ones do not
 * wait for it. Gives how many were closed.
 */
export async function closeSlices(
  compared: Compared,
  { unread, underway }: { unread: Unread; underway: Underway },
): Promise<number> {
  const { rowsMax, closeAfterSeconds } = compared.slices;
  // Nobody knows then whether all of it was charged.
  if (unread.length > 0) return 0;
  let closed = 0;
  for (const stretch of await openStretches(compared)) {
    for (let { from } = stretch; ;) {
      underway.signal.throwIfAborted();
      const rest = { from, until: stretch.until };
      const limits = { rowsMax, agoSeconds: closeAfterSeconds };
      const piece = await firstPiece(compared.database, rest, limits);
      if (piece === undefined || (piece.isRest && stretch.until === 'infinity')) break;
      const look = await lookAtWindow(compared, piece, { unread });
      if (isFinished(look) && (await close(compared.database, piece, look))) closed += 1;
      underway.progress(`closed ${closed} slices; compared all that came until ${piece.until}`);
      if (piece.isRest) break;
      from = piece.until;
    }
  }
  return closed;
}

/** Whether everything in a window agrees, and every event of it is where it is to be. */
export function isFinished({ findings, counts, sums }: Look): boolean {
  const { published, events, inbox, deliveries } = counts;
  const everywhere = [events, inbox, deliveries].every((each) => each === published);
  const of = (layer: string) =>
    sums.filter((row) => row.layer === layer).map((row) => ({ ...row, layer: 'all' }));
  return findings.length === 0 && everywhere && sameSums(of('published'), of('delivered'));
}

function sameSums(some: readonly SumRow[], others: readonly SumRow[]): boolean {
  return differingKeys(some, others).length === 0;
}

async function close(database: Queryable, { from, until }: Window, look: Totals): Promise<boolean> {
  const last = await closedSoFar(database);
  const { counts, sums } = addTotals([last, look]);
  const parameters = [last.nth, from, until, JSON.stringify(counts), JSON.stringify(sums)];
  return (await database.query(sql.closeSlice, parameters)).length > 0;
}

/**
 * Looks again at the closed slices that were found otherwise than they were closed, and at one
 * more, whichever: what is wrong with them.
 */
export async function lookAtClosed(
  compared: Compared,
  { unread, closed }: { unread: Unread; closed: Closed },
): Promise<DatedFinding[]> {
  if (closed.nth === 0) return [];
  const doubted = await compared.database.query<{ nth: number }>(sql.listDoubted);
  const sample = 1 + Math.floor(Math.random() * closed.nth);
  const findings: DatedFinding[] = [];
  for (const nth of new Set([...doubted.map((each) => each.nth), sample])) {
    findings.push(...(await lookAgain(compared, nth, { unread })));
  }
  return findings;
}

/**
 * Looks again at every closed slice. One that is interrupted leaves how far it was, and the next
 * goes on there. What is wrong is remembered, for {@link lookAtClosed} to find.
 */
export async function lookAtAllClosed(
  compared: Compared,
  { unread, underway }: { unread: Unread; underway: Underway },
): Promise<void> {
  const { database } = compared;
  const { nth: last } = await closedSoFar(database);
  const [begun] = await database.query<{ next: number; begunAt: Date }>(sql.beginFullAudit);
  const { next, begunAt } = begun!;
  const since = next > 1 ? `, in an audit that began ${begunAt.toISOString()}` : '';
  for (let nth = next; nth <= last; nth += 1) {
    underway.signal.throwIfAborted();
    underway.progress(`comparing closed slice ${nth} of ${last}${since}`);
    await lookAgain(compared, nth, { unread });
    await database.query(sql.passSlice, [nth]);
  }
  await database.query(sql.endFullAudit);
}

/** What may be wrong with a closed slice itself, besides what is wrong in it. */
export const checksOfClosed = ['closed-slice-altered', 'closed-slice-differs'] as const;

type Slice = Closed &
  Window & {
    countsBefore: AuditCounts | null;
    sumsBefore: readonly SumRow[] | null;
    intact: boolean;
  };

/** Compares a slice with what it was when it was closed, and remembers what that came to. */
async function lookAgain(
  compared: Compared,
  nth: number,
  { unread }: { unread: Unread },
): Promise<DatedFinding[]> {
  const findings = await compareClosed(compared, nth, { unread });
  await compared.database.query(findings.length > 0 ? sql.doubtSlice : sql.trustSlice, [nth]);
  return findings;
}

async function compareClosed(
  compared: Compared,
  nth: number,
  { unread }: { unread: Unread },
): Promise<DatedFinding[]> {
  const foundOf = (check: string, ids: readonly string[]): DatedFinding => {
    const since = new Date();
    return { holds: 'always', check, rows: ids.slice(0, 100).map((id) => ({ id, since })) };
  };
  const [slice] = await compared.database.query<Slice>(sql.readSlice, [nth]);
  if (slice === undefined || !slice.intact) {
    return [foundOf('closed-slice-altered', [String(nth)])];
  }
  const { from, until } = slice;
  const look = await lookAtWindow(compared, slice, { unread });
  const before = { counts: slice.countsBefore ?? noTotals.counts, sums: slice.sumsBefore ?? [] };
  const now = addTotals([before, look]);
  const counted = Object.entries(now.counts) as [keyof AuditCounts, number][];
  const differing = [
    ...counted.filter(([name, count]) => slice.counts[name] !== count).map(([name]) => name),
    ...differingKeys(slice.sums, now.sums),
  ];
  if (differing.length === 0) return [...look.findings];
  const ids = differing.map((figure) => `${nth}/${from}/${until}/${figure}`);
  return [...look.findings, foundOf('closed-slice-differs', ids)];
}
