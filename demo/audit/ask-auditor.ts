import { UsageError } from '@triplock/launcher';
import type { AuditReport } from './audit-report.ts';
import { askAdmin } from '../services.ts';
import type { System } from '../system.ts';
import { until } from '../until.ts';

/**
 * Which of the provider's charges are listed: those that are new since the last audit, or every
 * one.
 */
export type Listing = 'new' | 'everything';

/** The audit reads every layer; with a million payments that takes a while. */
const answerTimeoutMs = 60_000;

/**
 * Audits the whole system once nothing is in flight any more, or when `waitMs` are over; what is
 * still missing then counts as lost.
 *
 * @throws UsageError when no auditor runs, or none answers.
 */
export async function auditSystem(
  system: System,
  waitMs: number,
  listing: Listing = 'new',
): Promise<AuditReport> {
  if (system.replicas('auditor').length === 0) {
    throw new UsageError('no auditor runs: `npm run up` starts it again');
  }
  const deadline = performance.now() + waitMs;
  // Told once: whoever asks again joins what is under way.
  let path = listing === 'everything' ? '/audit?everything=true' : '/audit';
  const settled = await until({
    what: 'an auditor that answers',
    withinMs: Math.max(waitMs, 1_000),
    signal: system.signal,
    check: async () => {
      const asked = path;
      path = '/audit';
      const report = await askAuditor(system, asked);
      const over = performance.now() >= deadline;
      system.progress(describeProgress(report, deadline));
      return (report.settledDown || over) && report;
    },
  }).catch((error: unknown) => {
    if (system.signal.aborted) throw error;
    throw new UsageError(`no auditor answers: see ${system.home}/logs/auditor-1.log`, {
      cause: error,
    });
  });
  return settled.settledDown ? settled : askAuditor(system, '/audit?final=true');
}

async function askAuditor(system: System, path: string): Promise<AuditReport> {
  const [auditor] = system.replicas('auditor');
  if (auditor === undefined) throw new Error('no auditor runs');
  const answer = await askAdmin(auditor, { path, timeoutMs: answerTimeoutMs });
  if (answer.ok) return (await answer.json()) as AuditReport;
  throw new Error(`${auditor.name} answered ${answer.status}: ${await answer.text()}`);
}

function describeProgress({ counts }: AuditReport, deadline: number): string {
  const { accepted, ledger, published, deliveries } = counts;
  const left = Math.max(0, Math.round((deadline - performance.now()) / 1_000));
  return (
    `waiting up to ${left} s for work in flight: accepted ${accepted}, ledger ${ledger}, ` +
    `published ${published}, delivered ${deliveries}`
  );
}
