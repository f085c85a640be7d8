import type { Logger, Pass } from '@triplock/runtime';
import type { Finding } from './audit-result.ts';
import type { AuditTurns, CountsByCheck, ScheduledResult } from './audit-turns.ts';
import { checks, type WaitsFor } from './checks.ts';
import type { AuditorMetrics } from './metrics.ts';
import { judge, look, type AuditParts, type Sightings } from './reconcile.ts';

/** Whatever an audit can find, so that what it does not find is told as 0. */
const findable = [...checks.map(({ name }) => name), 'sums-differ', 'not-compared'];

/** What the scheduled audit needs. */
export type AuditLoopParts = AuditParts & {
  turns: AuditTurns;
  metrics: AuditorMetrics;
  logger: Logger;
  /** What is in flight for longer counts as drift; milliseconds, by who has to do something. */
  overdueMs: Readonly<Record<WaitsFor, number>>;
};

/**
 * A pass that audits when it is this auditor's turn, and otherwise shows what another one found:
 * the metrics of all of them say the same. It never has more to do, so it rests afterwards.
 */
export function auditPass(parts: AuditLoopParts): Pass {
  for (const { name: check } of checks) parts.metrics.checkSeconds.set({ check }, 0);
  return async () => {
    const turn = await parts.turns.take();
    if (turn !== undefined) {
      const startedMs = performance.now();
      const found = report(parts, await lookCounted(parts));
      await parts.turns.end(turn, { ...found, tookMs: performance.now() - startedMs });
    }
    setGauges(parts.metrics, await parts.turns.last());
    return 0;
  };
}

async function lookCounted(parts: AuditLoopParts): Promise<Sightings> {
  const { runs, checkSeconds } = parts.metrics;
  try {
    const seen = await look(parts);
    runs.count('completed');
    for (const [check, ms] of seen.tookMs) checkSeconds.set({ check }, ms / 1_000);
    return seen;
  } catch (error) {
    runs.count('failed');
    throw error;
  }
}

function report({ logger, overdueMs }: AuditLoopParts, seen: Sightings) {
  const { drift, inFlight, counts, settledDown } = judge(seen, { final: false });
  const overdue = seen.findings
    .filter(({ holds, since, waitsFor = 'system' }) => {
      return holds === 'in the end' && Date.now() - +since > overdueMs[waitsFor];
    })
    .map(({ check, ids }) => ({ check, ids }));
  const wrong = [...drift, ...overdue];
  // Sums have no age of their own: they are wrong when nothing is left that could mend them.
  const restsOnSums = inFlight.waiting.every(({ check }) => check === 'sums-differ');
  const idle = Object.values(inFlight.lag).every((lag) => lag === 0);
  if (idle && restsOnSums) wrong.push(...inFlight.waiting);
  if (wrong.length > 0) logger.error({ drift: wrong, counts }, 'the audit found drift');
  else logger.info({ counts, settledDown, lag: inFlight.lag }, 'the audit found no drift');
  const since = seen.findings
    .filter(({ holds }) => holds === 'in the end')
    .map((finding) => [finding.check, finding.since.toISOString()]);
  return {
    drift: countsOf(wrong),
    inFlight: countsOf(inFlight.waiting),
    inFlightSince: Object.fromEntries(since) as Record<string, string>,
  };
}

function countsOf(findings: readonly Finding[]): CountsByCheck {
  return Object.fromEntries(findings.map(({ check, ids }) => [check, ids.length]));
}

function setGauges(metrics: AuditorMetrics, last: ScheduledResult): void {
  metrics.auditSeconds.set(last.tookMs / 1_000);
  metrics.lastAudit.set((last.endedAt?.getTime() ?? 0) / 1_000);
  for (const check of findable) {
    metrics.drift.set({ check }, last.drift[check] ?? 0);
    metrics.inFlight.set({ check }, last.inFlight[check] ?? 0);
    metrics.inFlightOldestSeconds.set({ check }, ageOf(last.inFlightSince[check], last.endedAt));
  }
}

/** By the clock of the database at both ends. */
function ageOf(since: string | undefined, endedAt: Date | null): number {
  if (since === undefined || endedAt === null) return 0;
  return Math.max(0, endedAt.getTime() - Date.parse(since)) / 1_000;
}
