import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { AdminRoute } from '@triplock/runtime';
import { observe, resultOf, type Auditor, type Observations } from './audit.ts';

/** How long an audit is waited for, and how long it goes on when nobody asks for it any more. */
export type Patience = {
  /** Milliseconds after which whoever asked is told how far it is. */
  answerAfterMs: number;
  /** Milliseconds without a question, after which it ends. */
  abandonAfterMs: number;
};

const usualPatience: Patience = { answerAfterMs: 10_000, abandonAfterMs: 30_000 };

/** An audit under way. */
type Job = {
  seen: Promise<Observations>;
  /** How far it is, for people. */
  progress: string;
  abandon: AbortController;
  /** Ends it, unless somebody asks before. */
  timer: NodeJS.Timeout | undefined;
};

/**
 * `POST /audit`: audits now and answers with the result. `?final=true` says that waiting is over:
 * what is still in flight is then drift. `?full=true` compares all closed slices again, and
 * `?everything=true` also lists all that the provider has and not only what is new. 503 when
 * PostgreSQL or Kafka cannot be asked.
 *
 * An audit that takes long is answered by 202, `{ ticket, progress }`, and asked for again with
 * `?ticket=`, which waits for the same audit; it ends when nobody does. 404: it ended in this way,
 * or the auditor was started again. What it closed or compared stays so, and the next goes on
 * there.
 */
export function auditRoute(auditor: Auditor, patience = usualPatience): AdminRoute {
  const jobs = new Map<string, Job>();
  return async (query) => {
    const ticket = query.get('ticket') ?? randomUUID();
    const job = query.has('ticket') ? jobs.get(ticket) : begin(auditor, query);
    if (job === undefined) return { status: 404, body: { error: 'no such audit is under way' } };
    clearTimeout(job.timer);
    jobs.set(ticket, job);
    try {
      const seen = await answered(job, patience.answerAfterMs);
      if (seen === 'underway') {
        job.timer = setTimeout(() => {
          jobs.delete(ticket);
          job.abandon.abort(new Error('nobody asks for it any more'));
        }, patience.abandonAfterMs).unref();
        return { status: 202, body: { ticket, progress: job.progress } };
      }
      jobs.delete(ticket);
      return { status: 200, body: resultOf(seen, { final: query.get('final') === 'true' }) };
    } catch (error) {
      jobs.delete(ticket);
      const why = error instanceof Error ? error.message : String(error);
      return { status: 503, body: { error: `the audit could not look at everything: ${why}` } };
    }
  };
}

function begin(auditor: Auditor, query: URLSearchParams): Job {
  const everything = query.get('everything') === 'true';
  const abandon = new AbortController();
  const audit = async () => {
    if (everything) await auditor.journal.doubtEverything();
    return observe(auditor, {
      // What the provider no longer has lies in closed slices, too.
      full: everything || query.get('full') === 'true',
      underway: { signal: abandon.signal, progress: (text) => (job.progress = text) },
    });
  };
  const job: Job = { seen: audit(), progress: 'begun', abandon, timer: undefined };
  // Who asks again learns of it; whoever does not is not there to.
  job.seen.catch(() => undefined);
  return job;
}

async function answered({ seen }: Job, afterMs: number): Promise<Observations | 'underway'> {
  const rest = new AbortController();
  const late = delay(afterMs, 'underway' as const, { signal: rest.signal });
  try {
    return await Promise.race([seen, late]);
  } finally {
    rest.abort();
    late.catch(() => undefined);
  }
}
