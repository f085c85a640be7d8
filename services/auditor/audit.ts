import type { Rule } from '@triplock/pipeline';
import type { Logger } from '@triplock/runtime';
import type { CleanWindows } from './clean-windows.ts';
import type { FoundRow, Unread } from './checks.ts';
import { measureLag, type Lag, type LagReaders } from './kafka-retention.ts';
import { findLostRecords, listLost, type ListedLoss, type LostRecords } from './lost-records.ts';
import type { AuditorMetrics } from './metrics.ts';
import type { JournalCopy, NotCompared, Unasked } from './provider-journal.ts';
import {
  closedSoFar,
  closeSlices,
  lookAtAllClosed,
  lookAtClosed,
  openStretches,
  unwatched,
  type Stretch,
  type Underway,
} from './slices.ts';
import { differingSums, renderSums, type PartnerSums, type SumRow } from './sums.ts';
import { claimsNotCompared } from './unaccounted-claims.ts';
import {
  addTimes,
  addTotals,
  atOneMoment,
  cutIntoWindows,
  findAgeless,
  findInWindow,
  lookAtWindow,
  mergeFindings,
  totalsOf,
  totalsOfUnfinished,
  type AuditCounts,
  type Compared,
  type DatedFinding,
  type Finding,
  type Look,
} from './windows.ts';

/** What an audit looks at, and what it reports to. */
export type Auditor = Compared & {
  lag: LagReaders;
  journal: JournalCopy;
  /** What the accepted topic lost before it was read. */
  lost: LostRecords;
  /**
   * Milliseconds after a customer's time was over, by which a worker has ended what was not
   * confirmed: what still waits for one is then drift.
   */
  customerOverdueMs: number;
  metrics: AuditorMetrics;
  logger: Logger;
};

/** What waits for somebody who is none of us: the oldest ids, 100 at most, and since when. */
export type Waiting = { for: string; ids: readonly string[]; since: Date };

/** What an audit says: the body of `POST /audit`. */
export type AuditResult = {
  /** No drift. It is the last word only when everything has `settledDown`. */
  ok: boolean;
  /** Nothing is in flight: no lag, and no check that is still waiting for something. */
  settledDown: boolean;
  counts: AuditCounts;
  sums: readonly PartnerSums[];
  /**
   * What is wrong and cannot come right by waiting; with `final`, what has not come right by now.
   */
  drift: readonly Finding[];
  /** What others have to do: `customer of`, `bank of` or `endpoint of` a partner. Never drift. */
  waiting: readonly Waiting[];
  /** What is drift as `accepted-lost` until a person acknowledges it. */
  lost: readonly ListedLoss[];
  /** What we have still to do. */
  inFlight: { lag: Lag; waiting: readonly Finding[] };
  /** What this says nothing about; in the end that is drift as well. */
  notCompared: readonly NotCompared[];
};

/** How an audit is to look, and who watches it. */
export type Looking = {
  /** Also at every closed slice, and not only at some, and at sums of whole tables. */
  full: boolean;
  /** The closed slices were looked at a moment ago. */
  slicesSeen?: boolean;
  /** Windows that need no look, and to which those are added that need none the next time. */
  clean?: CleanWindows;
  underway: Underway;
};

const usual: Looking = { full: false, underway: unwatched };

/** Everything an audit saw, before it is decided what of it is wrong. */
export type Observations = {
  lag: Lag;
  counts: AuditCounts;
  sums: readonly SumRow[];
  findings: readonly DatedFinding[];
  lost: readonly ListedLoss[];
  notCompared: readonly NotCompared[];
  /** Milliseconds that each check took. */
  tookMs: ReadonlyMap<string, number>;
  /** Whether, as the look began, something that was told before a restore was not taken over. */
  takingOver?: boolean;
};

/**
 * Looks at everything. Where the ledger is looked at by a copy, that is some milliseconds older
 * than the rest, which may know more by then: so what must always hold is wrong only if it still is
 * after the ledger was copied once more.
 */
export async function observe(auditor: Auditor, looking = usual): Promise<Observations> {
  const seen = await lookOnce(auditor, looking);
  if (auditor.copyLedger === undefined || !seen.findings.some(isAlways)) return seen;
  const again = await lookOnce(auditor, { ...looking, slicesSeen: true });
  const before = new Set(
    seen.findings.flatMap(({ check, rows }) => rows.map(({ id }) => check + id)),
  );
  const findings = again.findings.map((finding) => {
    if (!isAlways(finding)) return finding;
    return { ...finding, rows: finding.rows.filter(({ id }) => before.has(finding.check + id)) };
  });
  return { ...again, findings: findings.filter(({ rows }) => rows.length > 0) };
}

const isAlways = ({ holds }: DatedFinding) => holds === 'always';

/**
 * Looks at everything: at what neither a closed slice nor a window known to be clean covers, window
 * by window, at what has not come to its end, however old, and at some closed slices. Rejects when
 * PostgreSQL or Kafka does not answer: an audit that cannot see says nothing.
 */
async function lookOnce(auditor: Auditor, looking: Looking): Promise<Observations> {
  const known = await closeAndCompare(auditor, looking);
  for (;;) {
    const seen = await lookNow(auditor, known, looking);
    // Another auditor closed a slice of what was looked at here as open.
    if (seen !== 'closed-meanwhile') return seen;
  }
}

/** Closes what can be, and looks at all that was closed before where that is asked for. */
async function closeAndCompare(auditor: Auditor, looking: Looking): Promise<Known> {
  const { full, slicesSeen, underway } = looking;
  const known = await prepare(auditor);
  const unread = unreadIn(known);
  const again = full && slicesSeen !== true;
  if (again) await lookAtAllClosed(auditor, { unread, underway });
  const closed = await closeSlices(auditor, { unread, underway });
  return again || closed > 0 ? prepare(auditor) : known;
}

async function lookNow(
  auditor: Auditor,
  known: Known,
  { full, clean, underway: { progress, signal } }: Looking,
): Promise<Observations | 'closed-meanwhile'> {
  const { database, slices, copyLedger } = auditor;
  const { lag, unasked } = known;
  const unread = unreadIn(known);
  // First: whatever comes later in this look sees all of it taken over, if this did.
  const [told] = await database.query<{ open: boolean }>(toldSql);
  const closed = await closedSoFar(database);
  const inClosed = await lookAtClosed(auditor, { unread, closed });
  const unchanged = await clean?.take(database);
  const windows: Stretch[] = [];
  for (const stretch of await openStretches(auditor, unchanged)) {
    const cut = await cutIntoWindows(database, stretch, slices.rowsMax);
    windows.push(...cut.map((window) => ({ ...stretch, ...window })));
  }
  const last = windows.pop()!;
  const looks: Look[] = [];
  for (const [nth, window] of windows.entries()) {
    signal.throwIfAborted();
    progress(`comparing what is not closed: ${nth + 1} of ${windows.length + 1} windows`);
    const look = await lookAtWindow(auditor, window, { unread });
    looks.push(look);
    if (window.rested && unread.length === 0) clean?.add(window, look);
  }
  if (windows.length > 0) await copyLedger?.({ counting: true });
  const newest = await findInWindow(auditor, last, { unread });
  // As long as nothing is closed, an audit looks at all there ever was.
  const whole = full || closed.nth === 0;
  const ageless = await findAgeless(auditor, { unread, whole });
  const totals = await atOneMoment(auditor, async (tx) => {
    const { nth } = await closedSoFar(tx);
    if (nth !== closed.nth) return undefined;
    return [await totalsOf(tx, last), await totalsOfUnfinished(tx)];
  });
  if (totals === undefined) return 'closed-meanwhile';
  const looked = [...looks, newest, ageless];
  const found = [...inClosed, ...looked.flatMap(({ findings }) => findings)];
  return {
    lag,
    ...addTotals([closed, ...(unchanged ?? []), ...looks, ...totals]),
    findings: [
      ...notComparedFindings(unasked),
      ...mergeFindings(found).flatMap((each) => splitLate(each, auditor)),
    ],
    lost: await listLost(database),
    notCompared: unasked.map(({ because }) => because),
    tookMs: addTimes(looked),
    takingOver: told!.open,
  };
}

const toldSql = 'SELECT EXISTS (SELECT FROM ledger.told WHERE adopted_at IS NULL) AS open';

type Known = { lag: Lag; unasked: readonly Unasked[] };

const unreadIn = ({ unasked }: Known): Unread => unreadOf(unasked.map(({ because }) => because));

/** Whose journals could not be read. */
function unreadOf(notCompared: readonly NotCompared[]): Unread {
  return notCompared.flatMap((each) => (each.part === 'provider' ? each.provider : []));
}

/** What has to be known before anything is looked at. */
async function prepare(auditor: Auditor): Promise<Known> {
  await findLostRecords(auditor.lost);
  // The lag first: without any, the moments that follow hold what every record came to. Then the
  // provider: the ledger stores what it will ask for before it does, so they hold that too.
  const lag = await measureLag(auditor.lag);
  const atProvider = await auditor.journal.catchUp();
  await auditor.copyLedger?.({ counting: true });
  const claims = await claimsNotCompared(auditor.database);
  const provider = atProvider.outcome === 'not-compared' ? atProvider.unasked : [];
  return { lag, unasked: [...provider, ...(claims === undefined ? [] : [claims])] };
}

/** What still waits for a customer long after that one’s time was over is a worker’s, and drift. */
function splitLate(finding: DatedFinding, { customerOverdueMs }: Auditor): DatedFinding[] {
  if (finding.holds !== 'once others acted' || finding.waitsFor !== 'customer') return [finding];
  const isLate = ({ overMs = 0 }: FoundRow) => overMs > customerOverdueMs;
  const split: DatedFinding[] = [
    { ...finding, rows: finding.rows.filter((row) => !isLate(row)) },
    { holds: 'always', check: finding.check, rows: finding.rows.filter(isLate) },
  ];
  return split.filter(({ rows }) => rows.length > 0);
}

/**
 * What follows from what was seen. What others have to do is listed and is no drift, however long
 * it takes. What may still come right is in flight, unless waiting is over (`final`): then whatever
 * is not as it must be is drift, with its ids.
 */
export function resultOf(seen: Observations, { final }: { final: boolean }): AuditResult {
  const inFlight = [...findingsThatHold('in the end', seen), ...sumsThatDiffer(seen)];
  // After the database was set back events go ahead of what they tell, until that is taken over.
  const isTakenOver =
    seen.takingOver !== true && inFlight.every(({ check }) => check !== 'told-otherwise');
  const always = findingsThatHold('always', seen);
  if (!isTakenOver) inFlight.push(...always);
  const drift = isTakenOver ? always : [];
  const settledDown = inFlight.length === 0 && Object.values(seen.lag).every((lag) => lag === 0);
  if (final) drift.push(...inFlight, ...lagging(seen.lag));
  return {
    ok: drift.length === 0,
    settledDown,
    counts: seen.counts,
    sums: renderSums(seen.sums),
    drift,
    waiting: waitingOf(seen),
    lost: seen.lost,
    inFlight: { lag: seen.lag, waiting: inFlight },
    notCompared: seen.notCompared,
  };
}

function notComparedFindings(unasked: readonly Unasked[]): DatedFinding[] {
  if (unasked.length === 0) return [];
  const rows = unasked.map(({ because, since }) => ({ id: nameOf(because), since }));
  rows.sort((one, other) => +one.since - +other.since);
  return [{ check: 'not-compared', holds: 'in the end', rows }];
}

function nameOf(unasked: NotCompared): string {
  return unasked.part === 'provider' ? unasked.provider : unasked.part;
}

function findingsThatHold(holds: Rule['holds'], { findings }: Observations): Finding[] {
  return findings
    .filter((finding) => finding.holds === holds)
    .map(({ check, rows }) => ({ check, ids: rows.map(({ id }) => id) }));
}

/** By whom it waits for, whichever check found it; who is waited for the longest first. */
function waitingOf({ findings }: Observations): Waiting[] {
  const rows = findings.flatMap((finding) => {
    if (finding.holds !== 'once others acted') return [];
    return finding.rows.map((row) => ({ ...row, for: `${finding.waitsFor} of ${row.partner}` }));
  });
  rows.sort((one, other) => +one.since - +other.since);
  return [...Map.groupBy(rows, (row) => row.for)].map(([name, oldest]) => ({
    for: name,
    ids: oldest.slice(0, idsMax).map(({ id }) => id),
    since: oldest[0]!.since,
  }));
}

const idsMax = 100;

function sumsThatDiffer({ sums, notCompared }: Observations): Finding[] {
  const ids = differingSums(sums, { unread: unreadOf(notCompared) });
  return ids.length > 0 ? [{ check: 'sums-differ', ids }] : [];
}

function lagging(lag: Lag): Finding[] {
  const behind = Object.entries(lag).filter(([, records]) => records > 0);
  if (behind.length === 0) return [];
  return [{ check: 'lag', ids: behind.map(([consumer, records]) => `${consumer}: ${records}`) }];
}
