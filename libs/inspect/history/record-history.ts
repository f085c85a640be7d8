import { appendFileSync, closeSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { CommandError } from '@triplock/command';
import type {
  Answered,
  Asked,
  HistoryEvent,
  HistoryHead,
  RunOver,
  WebhookArrived,
} from './history.ts';

/** A history that is being written. */
export type HistoryRecorder = {
  readonly file: string;
  /** To be called before the request's first byte is sent; returns its `n`. */
  asked(request: Omit<Asked, 'what' | 'at' | 'n'>, seen?: Date): number;
  answered(n: number, answer: Omit<Answered, 'what' | 'at' | 'n'>, seen?: Date): void;
  unanswered(n: number, why: string, seen?: Date): void;
  webhook(arrived: Omit<WebhookArrived, 'what' | 'at'>, seen?: Date): void;
  /** To be called before it is done, so that no answer stands before what caused it. */
  fault(name: string, detail?: string): void;
  /** Nothing is written after it. */
  over(run: Omit<RunOver, 'what' | 'at'>): void;
  close(): void;
};

/**
 * Begins a history in a new file; folders are made. Each line is handed to the operating system by
 * one synchronous append before the call returns: a writer that is killed leaves every line before
 * the one it was writing, and what was sent is never missing. What outlives a power cut is not
 * promised.
 *
 * `seen` is for what another process saw: by the clock of this machine, not when it was written.
 *
 * @throws when the file is there already, or cannot be written.
 */
export function openHistory(file: string, system: string): HistoryRecorder {
  mkdirSync(dirname(file), { recursive: true });
  const descriptor = openSync(file, 'ax');
  const beganAt = { wallMs: Date.now(), clockMs: performance.now() };
  let asked = 0;
  const write = (line: HistoryHead | HistoryEvent) =>
    appendFileSync(descriptor, `${JSON.stringify(line)}\n`);
  // By a clock that nobody sets, so that a span is never negative; to the microsecond.
  const now = (seen: Date | undefined) =>
    seen === undefined
      ? Math.round((performance.now() - beganAt.clockMs) * 1_000) / 1_000
      : seen.getTime() - beganAt.wallMs;
  write({ history: 1, began: new Date(beganAt.wallMs).toISOString(), system });
  return {
    file,
    asked(request, seen) {
      asked += 1;
      write({ what: 'asked', at: now(seen), n: asked, ...request });
      return asked;
    },
    answered: (n, answer, seen) => write({ what: 'answered', at: now(seen), n, ...answer }),
    unanswered: (n, why, seen) => write({ what: 'unanswered', at: now(seen), n, why }),
    webhook: (arrived, seen) => write({ what: 'webhook', at: now(seen), ...arrived }),
    fault: (name, detail) =>
      write({ what: 'fault', at: now(undefined), name, ...(detail !== undefined && { detail }) }),
    over: (run) => write({ what: 'over', at: now(undefined), ...run }),
    close: () => closeSync(descriptor),
  };
}

/** What the demo's catcher tells of the requests to the partners' endpoints. */
type ArrivalsPage = {
  catcher: string;
  last: number;
  arrivals: readonly (Omit<WebhookArrived, 'what' | 'at'> & { number: number; at: string })[];
};

const followEveryMs = 100;

/**
 * Writes every webhook that comes to the demo's catcher from now on. `stop` returns when all that
 * came before its call is written, so whoever waited for the deliveries has them all.
 *
 * @throws by `stop`, CommandError when the catcher ended meanwhile, or forgot some that were not
 * asked for in time: the history lacks webhooks that came.
 */
export async function followWebhooks(
  history: Pick<HistoryRecorder, 'webhook'>,
  catcher: string,
): Promise<{ stop(): Promise<void> }> {
  const ended = new AbortController();
  const began = await readArrivals(catcher, Number.MAX_SAFE_INTEGER);
  let seen = began.last;
  /** Writes what came since, a page; whether there may be more. */
  const catchUp = async (): Promise<boolean> => {
    const page = await readArrivals(catcher, seen);
    if (page.catcher !== began.catcher) throw lackingWebhooks('the catcher was started anew');
    for (const { number, at, partner, id, verified, body } of page.arrivals) {
      if (number !== seen + 1)
        throw lackingWebhooks(`the catcher forgot ${number - seen - 1} webhooks`);
      seen = number;
      history.webhook({ partner, id, verified, body }, new Date(at));
    }
    return page.last > seen;
  };
  const following = (async () => {
    while (!ended.signal.aborted) {
      if (await catchUp()) continue;
      await delay(followEveryMs, undefined, { signal: ended.signal, ref: false }).catch(
        () => undefined,
      );
    }
    while (await catchUp());
  })();
  // Whoever stops gets it; until then it must not end the process.
  following.catch(() => undefined);
  return {
    stop: () => {
      ended.abort();
      return following;
    },
  };
}

function lackingWebhooks(why: string): CommandError {
  return new CommandError(`${why}: this history lacks webhooks that came, begin another one`);
}

/** A connection may be closed for its rest in the moment in which it is used: it is asked again. */
async function readArrivals(catcher: string, after: number, tries = 3): Promise<ArrivalsPage> {
  try {
    const answer = await fetch(`${catcher}/arrivals?after=${after}`, {
      signal: AbortSignal.timeout(10_000),
    });
    if (!answer.ok) throw new CommandError(`the catcher answered ${answer.status}`);
    return (await answer.json()) as ArrivalsPage;
  } catch (error) {
    // What fetch throws where a connection failed.
    if (tries === 1 || !(error instanceof TypeError)) throw error;
    return readArrivals(catcher, after, tries - 1);
  }
}
