import type { CopyLedger } from '@triplock/ledger';
import { loadStatements, type Database, type Queryable } from '@triplock/postgres';
import type { AdminRoute, Logger } from '@triplock/runtime';
import type { TopicOffsets } from '@triplock/transport';
import { checks, type Check, type Holds } from './checks.ts';
import { findLostRecords, type LostRecords } from './lost-records.ts';
import type { AuditorMetrics } from './metrics.ts';
import type { CaughtUp, JournalCopy, NotCompared } from './provider-journal.ts';
import { differingSums, renderSums, type PartnerSums, type SumRow } from './sums.ts';

const sql = loadStatements(import.meta.url, 'audit.sql', ['sumEverything', 'countEverything']);

/** What an audit looks at, and what it reports to. */
export type Auditor = {
  database: Database;
  lag: LagReaders;
  journal: JournalCopy;
  /** What the accepted topic lost before it was read. */
  lost: LostRecords;
  /** Brings the ledger's copy up to now, where the ledger itself is in another store. */
  copyLedger?: CopyLedger | undefined;
  metrics: AuditorMetrics;
  logger: Logger;
};

/** Ids that a check found, 100 at most. */
export type Finding = { check: string; ids: readonly string[] };

/** Kafka records that are in a topic and that its consumer has not finished. */
export type Lag = { worker: number; accepted: number; deadLetters: number };

/** How much there is of everything; see sum and count statements for what each one means. */
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
  | 'unwanted',
  number
>;

/** What an audit says: the body of `GET /audit`. */
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
  inFlight: { lag: Lag; waiting: readonly Finding[] };
  /** What this says nothing about; in the end that is drift as well. */
  notCompared: readonly NotCompared[];
};

/**
 * `GET /audit`: audits now and answers with the result. `?final=true` says that waiting is over:
 * what is still in flight is then drift. `?everything=true` lists all that the provider has and not
 * only what is new. 503 when PostgreSQL or Kafka cannot be asked.
 */
export function auditRoute(auditor: Auditor): AdminRoute {
  return async (query) => {
    try {
      if (query.get('everything') === 'true') await auditor.journal.doubtEverything();
      const seen = await observe(auditor);
      return { status: 200, body: resultOf(seen, { final: query.get('final') === 'true' }) };
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      return { status: 503, body: { error: `the audit could not look at everything: ${why}` } };
    }
  };
}

/** What a check found, and since when the oldest of it has been so. */
export type DatedFinding = Finding & Pick<Check, 'holds' | 'waitsFor'> & { since: Date };

/** Everything an audit saw, before it is decided what of it is wrong. */
export type Observations = {
  lag: Lag;
  counts: AuditCounts;
  sums: readonly SumRow[];
  findings: readonly DatedFinding[];
  notCompared: readonly NotCompared[];
  /** Milliseconds that each check took. */
  tookMs: ReadonlyMap<string, number>;
};

/**
 * Looks at everything. Where the ledger is looked at by a copy, that is some milliseconds older
 * than the rest, which may know more by then: so what must always hold is wrong only if it still is
 * after the ledger was copied once more.
 */
export async function observe(auditor: Auditor): Promise<Observations> {
  const seen = await lookOnce(auditor);
  if (auditor.copyLedger === undefined || !seen.findings.some(isAlways)) return seen;
  const again = await lookOnce(auditor);
  const before = new Set(seen.findings.flatMap(({ check, ids }) => ids.map((id) => check + id)));
  const findings = again.findings.map((finding) => {
    if (!isAlways(finding)) return finding;
    return { ...finding, ids: finding.ids.filter((id) => before.has(finding.check + id)) };
  });
  return { ...again, findings: findings.filter(({ ids }) => ids.length > 0) };
}

const isAlways = ({ holds }: DatedFinding) => holds === 'always';

/**
 * Looks at everything at one moment, of which the ledger's copy has to be, too: where another
 * copier has begun on a backlog meanwhile, it looks again. Rejects when PostgreSQL or Kafka does
 * not answer: an audit that cannot see says nothing.
 */
async function lookOnce(auditor: Auditor): Promise<Observations> {
  for (;;) {
    const seen = await lookNow(auditor);
    if (seen.outcome === 'seen') return seen.observations;
  }
}

type Look = { outcome: 'seen'; observations: Observations } | { outcome: 'copy-behind' };

async function lookNow(auditor: Auditor): Promise<Look> {
  const { database, lag, journal, copyLedger, lost } = auditor;
  await findLostRecords(lost);
  // The lag first: without any, the snapshot that follows holds what every record came to. Then the
  // provider: the ledger stores what it will ask for before it does, so the snapshot holds that
  // too.
  const lagNow = await measureLag(lag);
  const atProvider = await journal.catchUp();
  await copyLedger?.({ counting: true });
  return database.transaction(async (tx) => {
    await tx.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY');
    const behind = await tx.query('SELECT FROM ledger.copied WHERE behind');
    if (behind.length > 0) return { outcome: 'copy-behind' };
    const findings = notComparedFindings(atProvider);
    const tookMs = new Map<string, number>();
    for (const { name, sql, needs, ...check } of checks) {
      if (needs === 'provider' && atProvider.outcome === 'not-compared') continue;
      const startedMs = performance.now();
      const rows = await tx.query<{ id: string; since: Date }>(sql);
      tookMs.set(name, performance.now() - startedMs);
      if (rows.length === 0) continue;
      findings.push({
        ...check,
        check: name,
        ids: rows.map(({ id }) => id),
        since: rows[0]!.since,
      });
    }
    const sums = await tx.query<SumRow>(sql.sumEverything);
    const notCompared = atProvider.outcome === 'not-compared' ? [atProvider.because] : [];
    const counts = await count(tx);
    const observations = { lag: lagNow, counts, sums, findings, notCompared, tookMs };
    return { outcome: 'seen', observations };
  });
}

/**
 * What follows from what was seen. What may still come right is in flight, unless waiting is
 * over (`final`): then whatever is not as it must be is drift, with its ids.
 */
export function resultOf(seen: Observations, { final }: { final: boolean }): AuditResult {
  const waiting = [...findingsThatHold('in the end', seen), ...sumsThatDiffer(seen)];
  const drift = findingsThatHold('always', seen);
  const settledDown = waiting.length === 0 && Object.values(seen.lag).every((lag) => lag === 0);
  if (final) drift.push(...waiting, ...lagging(seen.lag));
  return {
    ok: drift.length === 0,
    settledDown,
    counts: seen.counts,
    sums: renderSums(seen.sums),
    drift,
    inFlight: { lag: seen.lag, waiting },
    notCompared: seen.notCompared,
  };
}

function notComparedFindings(caughtUp: CaughtUp): DatedFinding[] {
  if (caughtUp.outcome !== 'not-compared') return [];
  const { because, since } = caughtUp;
  return [{ check: 'not-compared', holds: 'in the end', ids: [because.part], since }];
}

async function count(tx: Queryable): Promise<AuditCounts> {
  const [row] = await tx.query<Record<keyof AuditCounts, bigint>>(sql.countEverything);
  const counts = Object.entries(row!).map(([name, value]) => [name, Number(value)]);
  return Object.fromEntries(counts) as AuditCounts;
}

function findingsThatHold(holds: Holds, { findings }: Observations): Finding[] {
  return findings
    .filter((finding) => finding.holds === holds)
    .map(({ check, ids }) => ({ check, ids }));
}

function sumsThatDiffer({ sums, notCompared }: Observations): Finding[] {
  const ids = differingSums(sums, { withProvider: notCompared.length === 0 });
  return ids.length > 0 ? [{ check: 'sums-differ', ids }] : [];
}

function lagging(lag: Lag): Finding[] {
  const behind = Object.entries(lag).filter(([, records]) => records > 0);
  if (behind.length === 0) return [];
  return [{ check: 'lag', ids: behind.map(([consumer, records]) => `${consumer}: ${records}`) }];
}

/** How far a topic goes, and how far its consumer came. */
type Positions = Pick<TopicOffsets, 'end' | 'committed'>;

/** The topics whose consumers the audit waits for. */
export type LagReaders = Readonly<Record<keyof Lag, Positions>>;

/** How many records of each topic its consumer has not finished. Rejects when Kafka is away. */
async function measureLag(readers: LagReaders): Promise<Lag> {
  const [worker, accepted, deadLetters] = await Promise.all([
    lagOf(readers.worker),
    lagOf(readers.accepted),
    lagOf(readers.deadLetters),
  ]);
  return { worker, accepted, deadLetters };
}

async function lagOf(offsets: Positions): Promise<number> {
  const [end, committed] = await Promise.all([offsets.end(), offsets.committed()]);
  let records = 0n;
  for (const [partition, next] of end) {
    const done = committed.get(partition) ?? 0n;
    if (next > done) records += next - done;
  }
  return Number(records);
}
