import type { CopyLedger } from '@triplock/ledger';
import { loadSql, type Database, type Queryable } from '@triplock/postgres';
import type { AuditCounts, AuditResult, Finding, Lag, NotCompared } from './audit-result.ts';
import { checks, type Check, type Holds } from './checks.ts';
import { measureLag, type LagReaders } from './measure-lag.ts';
import type { BookSight, ProviderBook } from './provider-book.ts';
import { differingSums, renderSums, type SumRow } from './sums.ts';

const countEverything = loadSql(import.meta.url, 'sql/count-everything.sql');
const sumEverything = loadSql(import.meta.url, 'sql/sum-everything.sql');

/** Where an audit looks. */
export type AuditParts = {
  database: Database;
  lag: LagReaders;
  provider: Pick<ProviderBook, 'catchUp'>;
  /** Brings the ledger's copy up to now, where the ledger itself is in another store. */
  copyLedger?: CopyLedger | undefined;
};

/** What a check found, and since when the oldest of it has been so. */
export type DatedFinding = Finding & Pick<Check, 'holds' | 'waitsFor'> & { since: Date };

/** Everything an audit saw, before it is judged. */
export type Sightings = {
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
export async function look(parts: AuditParts): Promise<Sightings> {
  const seen = await lookOnce(parts);
  if (parts.copyLedger === undefined || !seen.findings.some(isAlways)) return seen;
  const again = await lookOnce(parts);
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
async function lookOnce(parts: AuditParts): Promise<Sightings> {
  for (;;) {
    const seen = await lookNow(parts);
    if (seen.outcome === 'seen') return seen.sightings;
  }
}

type Look = { outcome: 'seen'; sightings: Sightings } | { outcome: 'copy-behind' };

async function lookNow(parts: AuditParts): Promise<Look> {
  const { database, lag, provider, copyLedger } = parts;
  // The lag first: without any, the snapshot that follows holds what every record came to. Then the
  // provider: the ledger stores what it will ask for before it does, so the snapshot holds that
  // too.
  const lagNow = await measureLag(lag);
  const atProvider = await provider.catchUp();
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
    const sums = await tx.query<SumRow>(sumEverything);
    const notCompared = atProvider.outcome === 'not-compared' ? [atProvider.because] : [];
    const counts = await count(tx);
    const sightings = { lag: lagNow, counts, sums, findings, notCompared, tookMs };
    return { outcome: 'seen', sightings };
  });
}

/**
 * The verdict over what was seen. What may still come right is in flight, unless this is the
 * `final` word: then whatever is not as it must be is drift, with its ids.
 */
export function judge(seen: Sightings, { final }: { final: boolean }): AuditResult {
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

function notComparedFindings(sight: BookSight): DatedFinding[] {
  if (sight.outcome !== 'not-compared') return [];
  const { because, since } = sight;
  return [{ check: 'not-compared', holds: 'in the end', ids: [because.part], since }];
}

async function count(tx: Queryable): Promise<AuditCounts> {
  const [row] = await tx.query<Record<keyof AuditCounts, bigint>>(countEverything);
  const counts = Object.entries(row!).map(([name, value]) => [name, Number(value)]);
  return Object.fromEntries(counts) as AuditCounts;
}

function findingsThatHold(holds: Holds, { findings }: Sightings): Finding[] {
  return findings
    .filter((finding) => finding.holds === holds)
    .map(({ check, ids }) => ({ check, ids }));
}

function sumsThatDiffer({ sums, notCompared }: Sightings): Finding[] {
  const ids = differingSums(sums, { withProvider: notCompared.length === 0 });
  return ids.length > 0 ? [{ check: 'sums-differ', ids }] : [];
}

function lagging(lag: Lag): Finding[] {
  const behind = Object.entries(lag).filter(([, records]) => records > 0);
  if (behind.length === 0) return [];
  return [{ check: 'lag', ids: behind.map(([consumer, records]) => `${consumer}: ${records}`) }];
}
