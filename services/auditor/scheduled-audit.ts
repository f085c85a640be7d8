import type { Rule } from '@triplock/pipeline';
import { loadStatements, type Queryable } from '@triplock/postgres';
import type { Logger, Pass } from '@triplock/runtime';
import { observe, resultOf, type Auditor, type AuditResult, type Observations } from './audit.ts';
import { checks } from './checks.ts';
import { cleanWindows, type CleanWindows } from './clean-windows.ts';
import type { AuditorMetrics } from './metrics.ts';
import { checksOfClosed, unwatched } from './slices.ts';
import type { DatedFinding, Finding } from './windows.ts';

const sql = loadStatements(import.meta.url, 'scheduled-audit.sql', [
  'takeRun',
  'endRun',
  'readLastRun',
]);

/** When audits are run, and for how many milliseconds something may be in flight. */
export type Schedule = { runs: AuditRuns; overdueMs: number };

/** Whatever an audit can find, so that what it does not find is shown as 0. */
const findable = [
  ...checks.map(({ name }) => name),
  ...checksOfClosed,
  'sums-differ',
  'not-compared',
];
const awaitable = checks
  .filter(({ holds }) => holds === 'once others acted')
  .map(({ name }) => name);

/**
 * A pass that audits when a run is due and this auditor gets it, and otherwise shows what another
 * one found: the metrics of all of them say the same. What it found clean it looks at again only
 * now and then. It never has more to do, so it rests afterwards.
 */
export function scheduledAudit(auditor: Auditor, { runs, overdueMs }: Schedule): Pass {
  const { metrics, logger } = auditor;
  const clean = cleanWindows(auditor.slices);
  for (const { name: check } of checks) metrics.checkSeconds.set({ check }, 0);
  return async () => {
    const run = await runs.take();
    if (run !== undefined) {
      const startedMs = performance.now();
      const found = report(await observeCounted(auditor, clean), overdueMs, logger);
      await runs.end(run, { ...found, tookMs: performance.now() - startedMs });
    }
    setGauges(metrics, await runs.last());
    return 0;
  };
}

async function observeCounted(auditor: Auditor, clean: CleanWindows): Promise<Observations> {
  const { runs, checkSeconds } = auditor.metrics;
  const looking = { full: false, underway: unwatched, clean };
  try {
    let seen = await observe(auditor, looking);
    // A row may have come to a clean window late, by a worker's clock that is slow.
    if (areSumsWrong(resultOf(seen, { final: false })) && clean.forget()) {
      seen = await observe(auditor, looking);
    }
    runs.count('completed');
    for (const [check, ms] of seen.tookMs) checkSeconds.set({ check }, ms / 1_000);
    return seen;
  } catch (error) {
    runs.count('failed');
    throw error;
  }
}

/** Sums have no age of their own: they are wrong when nothing is left that could mend them. */
function areSumsWrong({ inFlight: { waiting, lag } }: AuditResult): boolean {
  const isWrong = waiting.some(({ check }) => check === 'sums-differ');
  // What could not be compared is in none of them.
  const restsOnSums = waiting.every(({ check }) => ['sums-differ', 'not-compared'].includes(check));
  return isWrong && restsOnSums && Object.values(lag).every((records) => records === 0);
}

function report(seen: Observations, overdueMs: Schedule['overdueMs'], logger: Logger) {
  const result = resultOf(seen, { final: false });
  const { drift, inFlight, waiting, counts, settledDown } = result;
  const isOverdue = ({ holds, rows }: DatedFinding) =>
    holds === 'in the end' && Date.now() - +rows[0]!.since > overdueMs;
  // What must always hold is in flight while what was told is taken over. What is never taken over
  // excuses nothing: its record is gone, or the provider says otherwise.
  const isExcused = !seen.findings.some(
    (each) => each.check === 'told-otherwise' && isOverdue(each),
  );
  const isLate = (each: DatedFinding) => isOverdue(each) || (each.holds === 'always' && !isExcused);
  const overdue = seen.findings
    .filter(isLate)
    .map(({ check, rows }) => ({ check, ids: rows.map(({ id }) => id) }));
  const wrong = [...drift, ...overdue];
  if (areSumsWrong(result)) wrong.push(...inFlight.waiting);
  if (wrong.length > 0) logger.error({ drift: wrong, counts }, 'the audit found drift');
  else logger.info({ counts, settledDown, lag: inFlight.lag, waiting }, 'the audit found no drift');
  return {
    drift: countsOf(wrong),
    inFlight: countsOf(inFlight.waiting),
    inFlightSince: sinceOf(seen, 'in the end'),
    waiting: Object.fromEntries(
      seen.findings
        .filter(({ holds }) => holds === 'once others acted')
        .map(({ check, rows }) => [check, rows.length]),
    ),
    waitingSince: sinceOf(seen, 'once others acted'),
  };
}

function sinceOf({ findings }: Observations, holds: Rule['holds']): TimesByCheck {
  const dated = findings.filter((finding) => finding.holds === holds);
  return Object.fromEntries(dated.map(({ check, rows }) => [check, rows[0]!.since.toISOString()]));
}

function countsOf(findings: readonly Finding[]): CountsByCheck {
  return Object.fromEntries(findings.map(({ check, ids }) => [check, ids.length]));
}

function setGauges(metrics: AuditorMetrics, last: LastRun): void {
  metrics.auditSeconds.set(last.tookMs / 1_000);
  metrics.lastAudit.set((last.endedAt?.getTime() ?? 0) / 1_000);
  for (const check of findable) {
    metrics.drift.set({ check }, last.drift[check] ?? 0);
    metrics.inFlight.set({ check }, last.inFlight[check] ?? 0);
    metrics.inFlightOldestSeconds.set({ check }, ageOf(last.inFlightSince[check], last.endedAt));
  }
  for (const check of awaitable) {
    metrics.waiting.set({ check }, last.waiting[check] ?? 0);
    metrics.waitingOldestSeconds.set({ check }, ageOf(last.waitingSince[check], last.endedAt));
  }
}

/** By the clock of the database at both ends. */
function ageOf(since: string | undefined, endedAt: Date | null): number {
  if (since === undefined || endedAt === null) return 0;
  return Math.max(0, endedAt.getTime() - Date.parse(since)) / 1_000;
}

/** How many ids each check found. */
export type CountsByCheck = Readonly<Record<string, number>>;

/** Since when the oldest that a check found has been so, in the form of ISO 8601. */
export type TimesByCheck = Readonly<Record<string, string>>;

/** What a scheduled audit came to. */
export type AuditFound = {
  tookMs: number;
  drift: CountsByCheck;
  inFlight: CountsByCheck;
  inFlightSince: TimesByCheck;
  waiting: CountsByCheck;
  waitingSince: TimesByCheck;
};

/** The last one, as all auditors show it; it has not ended before the first. */
export type LastRun = AuditFound & { endedAt: Date | null };

/** The runs of the scheduled audit, which every auditor on one database shares. */
export type AuditRuns = {
  /** The number of the run; `undefined` when the audit is not due or somebody else has it. */
  take(): Promise<bigint | undefined>;
  /** Of a run that was overtaken only the time that it took is kept. */
  end(run: bigint, found: AuditFound): Promise<void>;
  last(): Promise<LastRun>;
};

// An audit that takes longer comes less often, and stays a tenth of the load.
const restFactor = 9;

/**
 * Runs that come every `everyMs`, or less often when an audit takes long. Clocks are the
 * database's.
 */
export function openAuditRuns(database: Queryable, everyMs: number): AuditRuns {
  return {
    async take() {
      const [row] = await database.query<{ run: bigint }>(sql.takeRun, [everyMs, restFactor]);
      return row?.run;
    },
    async end(run, { tookMs, drift, inFlight, inFlightSince, waiting, waitingSince }) {
      const found = [drift, inFlight, inFlightSince, waiting, waitingSince];
      const json = found.map((each) => JSON.stringify(each));
      await database.query(sql.endRun, [run, Math.round(tookMs), restFactor, ...json]);
    },
    async last() {
      const [row] = await database.query<LastRun>(sql.readLastRun);
      return row!;
    },
  };
}
