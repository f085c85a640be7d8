import type { CopyLedger } from '@triplock/ledger';
import type { Rule } from '@triplock/pipeline';
import { loadStatements, type Database, type Queryable } from '@triplock/postgres';
import {
  checks,
  everything,
  findWrong,
  withoutNestedLoops,
  type Check,
  type FoundRow,
  type Unread,
  type Window,
} from './checks.ts';
import { addSums, type SumRow } from './sums.ts';

const sql = loadStatements(import.meta.url, 'windows.sql', [
  'sumWindow',
  'sumUnfinished',
  'countWindow',
  'countUnfinished',
  'beginning',
  'measureSpan',
]);

/** How much there is of everything; see the count statements for what each one means. */
export type AuditCounts = Record<
  | 'accepted'
  | 'ledger'
  | 'deadLettered'
  | 'keyConflicts'
  | 'charges'
  | 'events'
  | 'published'
  | 'inbox'
  | 'deliveries'
  | 'undelivered',
  number
>;

/** Ids that a check found, 100 at most. */
export type Finding = { check: string; ids: readonly string[] };

/** What a check found, the oldest first; at least one. */
export type DatedFinding = Rule & { check: string; rows: readonly FoundRow[] };

/** How much there is. */
export type Totals = { counts: AuditCounts; sums: readonly SumRow[] };

/** What checks found. */
export type Found = {
  findings: readonly DatedFinding[];
  /** Milliseconds that each check took. */
  tookMs: ReadonlyMap<string, number>;
};

/** What was seen of a window. */
export type Look = Totals & Found;

/** What is compared, and in which slices. */
export type Compared = {
  database: Database;
  /** Brings the ledger's copy up to now, where the ledger itself is in another store. */
  copyLedger?: CopyLedger | undefined;
  slices: SliceLimits;
};

/** How slices are cut, and when they may be closed. */
export type SliceLimits = {
  /** Rows of a layer in a slice: a second or two of PostgreSQL's time. */
  rowsMax: number;
  /** Seconds after which hardly a row comes any more with a time that is past. */
  restSeconds: number;
  /**
   * Seconds after which none does. Clocks of workers differ from the database's by some minutes,
   * and a transaction becomes visible after its time.
   */
  closeAfterSeconds: number;
};

/** What there is of a window, and what is wrong in it. */
export async function lookAtWindow(
  compared: Compared,
  window: Window,
  options: { unread: Unread },
): Promise<Look> {
  const found = await findInWindow(compared, window, options);
  return { ...found, ...(await atOneMoment(compared, (tx) => totalsOf(tx, window))) };
}

/** What is wrong in a window, but for what needs a provider that could not be asked. */
export function findInWindow(
  compared: Compared,
  window: Window,
  { unread }: { unread: Unread },
): Promise<Found> {
  const windowed = checks.filter(({ takesWindow }) => takesWindow);
  return runChecks(compared, windowed, { window, unread });
}

/** What is wrong however old. With `whole` also what adds up whole tables. */
export function findAgeless(
  compared: Compared,
  { unread, whole }: { unread: Unread; whole: boolean },
): Promise<Found> {
  const ageless = checks.filter((check) => !check.takesWindow && (whole || !check.whole));
  return runChecks(compared, ageless, { window: everything, unread });
}

/**
 * Runs checks, each at a moment of its own: what a check compares it compares in one statement, and
 * a moment that lasts for all of them would keep every row that is changed meanwhile.
 */
async function runChecks(
  compared: Compared,
  those: readonly Check[],
  { window, unread }: { window: Window; unread: Unread },
): Promise<Found> {
  const findings: DatedFinding[] = [];
  const tookMs = new Map<string, number>();
  for (const check of those) {
    const { name } = check;
    const startedMs = performance.now();
    const rows = await atOneMoment(compared, (tx) => findWrong(tx, check, window, unread));
    tookMs.set(name, performance.now() - startedMs);
    if (rows.length > 0) findings.push({ ...ruleOf(check), check: name, rows });
  }
  return { findings, tookMs };
}

function ruleOf(check: Check): Rule {
  if (check.holds !== 'once others acted') return { holds: check.holds };
  return { holds: check.holds, waitsFor: check.waitsFor };
}

/**
 * Runs `work` on one moment of the database, which ends when it does. Of a ledger's copy that has
 * to be a moment, too: where a copier is at work on a backlog, this copies with it and looks again.
 */
export async function atOneMoment<Result>(
  { database, copyLedger }: Pick<Compared, 'database' | 'copyLedger'>,
  work: (tx: Queryable) => Promise<Result>,
): Promise<Result> {
  for (;;) {
    const seen = await database.transaction(async (tx) => {
      await tx.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY');
      // To compile takes longer than to run it. Before PostgreSQL 18 each loop that is left where
      // they are turned off counts as 1e10, for which every check would be compiled.
      await tx.query('SET LOCAL jit = off');
      if (copyLedger === undefined) return { result: await work(tx) };
      const behind = await tx.query('SELECT FROM ledger.copied WHERE behind');
      return behind.length > 0 ? undefined : { result: await work(tx) };
    });
    if (seen !== undefined) return seen.result;
    await copyLedger?.({ counting: true });
  }
}

type CountsRow = Partial<Record<keyof AuditCounts, bigint>>;

/** What there is of a window. */
export function totalsOf(tx: Queryable, { from, until }: Window): Promise<Totals> {
  return withoutNestedLoops(tx, async () => {
    const sums = await tx.query<SumRow>(sql.sumWindow, [from, until]);
    const [counts] = await tx.query<CountsRow>(sql.countWindow, [from, until]);
    return { sums, counts: countsOf(counts!) };
  });
}

/**
 * What the totals of all windows together have too much of, or lack, because of what has not come
 * to its end.
 */
export async function totalsOfUnfinished(tx: Queryable): Promise<Totals> {
  const sums = await tx.query<SumRow>(sql.sumUnfinished);
  const [counts] = await tx.query<CountsRow>(sql.countUnfinished);
  return { sums, counts: countsOf(counts!) };
}

const nothing: AuditCounts = {
  accepted: 0,
  ledger: 0,
  deadLettered: 0,
  keyConflicts: 0,
  charges: 0,
  events: 0,
  published: 0,
  inbox: 0,
  deliveries: 0,
  undelivered: 0,
};
const counted = Object.keys(nothing) as readonly (keyof AuditCounts)[];

function countsOf(row: CountsRow): AuditCounts {
  return { ...nothing, ...mapCounts((name) => Number(row[name] ?? 0)) };
}

function mapCounts(valueOf: (name: keyof AuditCounts) => number): AuditCounts {
  return Object.fromEntries(counted.map((name) => [name, valueOf(name)])) as AuditCounts;
}

/** Of nothing. */
export const noTotals: Totals = { counts: nothing, sums: [] };

/** What some totals come to together. */
export function addTotals(totals: readonly Totals[]): Totals {
  return {
    counts: mapCounts((name) => totals.reduce((sum, { counts }) => sum + counts[name], 0)),
    sums: addSums(totals.flatMap(({ sums }) => sums)),
  };
}

/**
 * What was found by each check in several windows, the oldest 100. What waits for others is in no
 * window, and has a hundred of each partner.
 */
export function mergeFindings(findings: readonly DatedFinding[]): DatedFinding[] {
  return [...Map.groupBy(findings, ({ check }) => check).values()].map((ofCheck) => {
    const [first] = ofCheck;
    if (first!.holds === 'once others acted') return first!;
    const oldestFirst = ofCheck.flatMap(({ rows }) => rows).toSorted((a, b) => +a.since - +b.since);
    const rows = [...Map.groupBy(oldestFirst, ({ id }) => id).values()].map(([row]) => row!);
    return { ...first!, rows: rows.slice(0, 100) };
  });
}

/** The time that each check took in several windows. */
export function addTimes(looks: readonly Found[]): ReadonlyMap<string, number> {
  const sum = new Map<string, number>();
  for (const { tookMs } of looks) {
    for (const [check, ms] of tookMs) sum.set(check, (sum.get(check) ?? 0) + ms);
  }
  return sum;
}

/** How time is cut into windows. */
export type Cut = {
  /** Rows of a layer that a window may hold. */
  rowsMax: number;
  /** Windows end so many seconds ago at the latest. */
  agoSeconds: number;
};

/** A piece of a stretch; it may be the rest of it, or of what of it is long enough ago. */
export type Piece = Window & { isRest: boolean };

const daySeconds = 86_400;
const shortestSeconds = 0.01;

/**
 * The first piece of a stretch: a day, or as much of it as holds so many rows. `undefined`: nothing
 * of it is so long ago.
 *
 * A piece whose rows all came at once may hold more: there is no time between them to cut at.
 */
export async function firstPiece(
  database: Queryable,
  stretch: Window,
  { rowsMax, agoSeconds }: Cut,
): Promise<Piece | undefined> {
  const begins = stretch.from === '-infinity' ? await beginningOf(database) : stretch.from;
  if (begins === null) return undefined;
  for (let seconds = daySeconds; ; seconds /= 2) {
    const [span] = await database.query<{ until: string; reachesEnd: boolean; rows: number }>(
      sql.measureSpan,
      [stretch.from, begins, seconds, stretch.until, agoSeconds, rowsMax + 1],
    );
    if (span === undefined) return undefined;
    if (span.rows > rowsMax && seconds > shortestSeconds) continue;
    return { from: stretch.from, until: span.until, isRest: span.reachesEnd };
  }
}

async function beginningOf(database: Queryable): Promise<string | null> {
  const [row] = await database.query<{ beginning: string | null }>(sql.beginning);
  return row!.beginning;
}

/** A stretch in windows that each hold so many rows at most, oldest first. */
export async function cutIntoWindows(
  database: Database,
  stretch: Window,
  rowsMax: number,
): Promise<Window[]> {
  const windows: Window[] = [];
  for (let from = stretch.from; ;) {
    const rest = { from, until: stretch.until };
    const piece = await firstPiece(database, rest, { rowsMax, agoSeconds: 0 });
    if (piece === undefined || piece.isRest) return [...windows, rest];
    windows.push({ from, until: piece.until });
    from = piece.until;
  }
}
