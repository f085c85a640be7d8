import type { Logger, Pass } from '@triplock/runtime';
import type { Finding } from './audit-result.ts';
import type { AuditTurns, CountsByCheck, ScheduledResult } from './audit-turns.ts';
import type { AuditorMetrics } from './metrics.ts';
import { judge, look, type AuditParts, type Sightings } from './reconcile.ts';

/** What the scheduled audit needs. */
export type AuditLoopParts = AuditParts & {
  turns: AuditTurns;
  metrics: AuditorMetrics;
  logger: Logger;
  /** What is in flight for longer counts as drift; milliseconds, by who has to do something. */
  overdueMs: { system: number; outsider: number };
};

/**
 * A pass that audits when it is this auditor's turn, and otherwise tells what another one found: the
 * metrics of all of them say the same. It never has more to do, so it rests afterwards.
 */
export function auditPass(parts: AuditLoopParts): Pass {
  return async () => {
    const turn = await parts.turns.take();
    if (turn !== undefined) {
      const startedMs = performance.now();
      const found = report(parts, await look(parts));
      await parts.turns.end(turn, { ...found, tookMs: performance.now() - startedMs });
    }
    setGauges(parts.metrics, await parts.turns.last());
    return 0;
  };
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
  return { drift: countsOf(wrong), inFlight: countsOf(inFlight.waiting) };
}

function countsOf(findings: readonly Finding[]): CountsByCheck {
  return Object.fromEntries(findings.map(({ check, ids }) => [check, ids.length]));
}

function setGauges(metrics: AuditorMetrics, last: ScheduledResult): void {
  metrics.auditSeconds.set(last.tookMs / 1_000);
  setGauge(metrics.drift, last.drift);
  setGauge(metrics.inFlight, last.inFlight);
}

function setGauge(gauge: AuditorMetrics['drift'], counts: CountsByCheck): void {
  gauge.reset();
  for (const [check, ids] of Object.entries(counts)) gauge.set({ check }, ids);
}
