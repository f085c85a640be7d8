import { setTimeout as delay } from 'node:timers/promises';
import { CommandError, UsageError, wordsOf } from '@triplock/command';
import { type AuditReport } from './audit-report.ts';

/** An audit to ask for. */
export type Auditing = {
  auditorUrl: string;
  /** How long to wait for work in flight; what is still missing then counts as lost. */
  waitMs: number;
  /**
   * What is compared again of what came to its end: some of it, which is the usual; all of it; or
   * all of it with everything that the provider lists.
   */
  depth?: AuditDepth;
  signal: AbortSignal;
  progress(text: string): void;
};

/** What is compared again of what came to its end before. */
export type AuditDepth = 'some' | 'full' | 'everything';

/** The auditor says after ten seconds how far it is, when it has no result by then. */
const answerTimeoutMs = 60_000;
const askAgainMs = 100;
/** Each look compares everything with everything, on the machine that has the work in flight. */
const pausePerLook = 2;
const pauseMsMax = 2_000;

/**
 * Asks an auditor once nothing is in flight any more, or when the wait is over. An audit that takes
 * longer is not given up while the auditor says how far it is.
 *
 * @throws UsageError when none answers.
 */
export async function askAuditor(auditing: Auditing): Promise<AuditReport> {
  const { auditorUrl, signal, progress, depth = 'some' } = auditing;
  const waitMs = Math.max(auditing.waitMs, 1_000);
  const began = performance.now();
  let answeredAt = began;
  const ask = (query: string) => {
    const heard = (text: string) => {
      answeredAt = performance.now();
      progress(text);
    };
    return askThrough({ auditorUrl, query, signal, heard });
  };
  let query = depth === 'some' ? '' : `${depth}=true`;
  for (;;) {
    signal.throwIfAborted();
    const askedAt = performance.now();
    const passedMs = askedAt - began;
    const isOver = passedMs >= auditing.waitMs;
    try {
      const report = await ask(query);
      answeredAt = performance.now();
      query = '';
      progress(describeProgress(report, auditing.waitMs - passedMs));
      if (report.settledDown) return report;
      if (isOver) return await ask('final=true');
    } catch (error) {
      signal.throwIfAborted();
      // Whoever asks again goes on with the list of all that the provider has.
      if (query !== '') query = 'full=true';
      if (performance.now() - answeredAt > waitMs) {
        const advice = `is it running, and are its database and brokers? ${wordsOf(error)}`;
        throw new UsageError(`no auditor answers at ${auditorUrl}: ${advice}`, { cause: error });
      }
    }
    const tookMs = performance.now() - askedAt;
    const pauseMs = Math.max(askAgainMs, Math.min(pausePerLook * tookMs, pauseMsMax));
    await delay(pauseMs, undefined, { signal });
  }
}

type Question = {
  auditorUrl: string;
  query: string;
  signal: AbortSignal;
  heard: (progress: string) => void;
};

/** Asks for an audit until it has a result. */
async function askThrough({ auditorUrl, query, signal, heard }: Question): Promise<AuditReport> {
  const asked = new URLSearchParams(query);
  for (;;) {
    const answer = await fetch(new URL(`/audit?${asked.toString()}`, auditorUrl), {
      method: 'POST',
      signal: AbortSignal.any([signal, AbortSignal.timeout(answerTimeoutMs)]),
    });
    if (!answer.ok) {
      throw new CommandError(`the auditor answered ${answer.status}: ${await answer.text()}`);
    }
    if (answer.status === 200) return (await answer.json()) as AuditReport;
    const { ticket, progress } = (await answer.json()) as { ticket: string; progress: string };
    asked.set('ticket', ticket);
    heard(progress);
  }
}

function describeProgress({ counts }: AuditReport, leftMs: number): string {
  const { accepted, ledger, published, deliveries } = counts;
  const left = Math.max(0, Math.round(leftMs / 1_000));
  return (
    `waiting up to ${left} s for work in flight: accepted ${accepted}, ledger ${ledger}, ` +
    `published ${published}, delivered ${deliveries}`
  );
}
