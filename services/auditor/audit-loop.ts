import type { Logger, Pass } from '@triplock/runtime';
import type { Finding } from './audit-result.ts';
import type { AuditorMetrics } from './metrics.ts';
import { judge, look, type AuditParts, type Sightings } from './reconcile.ts';

/** What the scheduled audit needs. */
export type AuditLoopParts = AuditParts & {
  metrics: AuditorMetrics;
  logger: Logger;
  /** What is in flight for longer counts as drift; milliseconds. */
  overdueMs: number;
};

// The audit reads whole tables. As they grow it comes less often and stays a tenth of the load.
const restFactor = 9;

/** A pass that audits and reports; it never has more to do, so it rests afterwards. */
export function auditPass(parts: AuditLoopParts): Pass {
  let notBeforeMs = 0;
  return async () => {
    const startedMs = performance.now();
    if (startedMs < notBeforeMs) return 0;
    const seen = await look(parts);
    report(parts, seen);
    const tookMs = performance.now() - startedMs;
    parts.metrics.auditSeconds.set(tookMs / 1_000);
    notBeforeMs = performance.now() + tookMs * restFactor;
    return 0;
  };
}

function report({ metrics, logger, overdueMs }: AuditLoopParts, seen: Sightings): void {
  const { drift, inFlight, counts, settledDown } = judge(seen, { final: false });
  const overdue = seen.findings
    .filter(({ holds, since }) => holds === 'in the end' && Date.now() - +since > overdueMs)
    .map(({ check, ids }) => ({ check, ids }));
  const wrong = [...drift, ...overdue];
  // Sums have no age of their own: they are wrong when nothing is left that could mend them.
  const restsOnSums = inFlight.waiting.every(({ check }) => check === 'sums-differ');
  const idle = Object.values(inFlight.lag).every((lag) => lag === 0);
  if (idle && restsOnSums) wrong.push(...inFlight.waiting);
  setGauges(metrics.drift, wrong);
  setGauges(metrics.inFlight, inFlight.waiting);
  if (wrong.length > 0) logger.error({ drift: wrong, counts }, 'the audit found drift');
  else logger.info({ counts, settledDown, lag: inFlight.lag }, 'the audit found no drift');
}

function setGauges(gauge: AuditorMetrics['drift'], findings: readonly Finding[]): void {
  gauge.reset();
  for (const { check, ids } of findings) gauge.set({ check }, ids.length);
}
