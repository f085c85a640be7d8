import { DeadlineError } from '@triplock/runtime';
import type { Calls } from './calls.ts';

/** Sessions of one database, each used by one at a time: a session holds one transaction. */
export type Sessions = {
  /**
   * Lends a session for the work. A session that `isLost` says is gone is not lent again.
   *
   * @throws DeadlineError when none became free in time: the work was not begun.
   */
  lend<Result>(work: (session: Lent) => Promise<Result>): Promise<Result>;
  /** Waits for what is lent, and gives all sessions back to the server. */
  close(): Promise<void>;
};

/** A session while it is lent. */
export type Lent = {
  readonly name: string;
  /** Takes another session instead. */
  renew(): Promise<void>;
};

/** As long as a call may take: whoever waits for longer has been given up on by its own caller. */
const waitMsUsual = 10_000;

/**
 * Keeps up to `max` sessions; further callers wait in line, up to `waitMs` each. While Spanner
 * hangs the line would else grow without end, and be worked off for nobody afterwards.
 */
export function keepSessions(calls: Calls, max: number, waitMs = waitMsUsual): Sessions {
  const idle: string[] = [];
  const line = new Set<() => void>();
  let lent = 0;
  let closing: (() => void) | undefined;

  async function take(): Promise<void> {
    if (lent < max) {
      lent += 1;
      return;
    }
    const { promise, resolve: begin, reject } = Promise.withResolvers<void>();
    line.add(begin);
    const timer = setTimeout(() => {
      line.delete(begin);
      reject(new DeadlineError(`no session of Spanner was free within ${waitMs} ms`));
    }, waitMs);
    await promise.finally(() => clearTimeout(timer));
  }

  /** The session passes to the next in line without being free in between. */
  function giveBack(): void {
    const [next] = line;
    if (next !== undefined) {
      line.delete(next);
      return next();
    }
    lent -= 1;
    if (lent === 0) closing?.();
  }

  return {
    async lend(work) {
      if (closing !== undefined) throw new Error('the connection to Spanner is closed');
      await take();
      let name: string | undefined;
      try {
        name = idle.pop() ?? (await calls.createSession());
        const session: Lent = {
          get name() {
            return name!;
          },
          renew: async () => {
            name = undefined;
            name = await calls.createSession();
          },
        };
        return await work(session);
      } finally {
        if (name !== undefined) idle.push(name);
        giveBack();
      }
    },
    async close() {
      const allBack = new Promise<void>((resolve) => (closing = resolve));
      if (lent > 0) await allBack;
      // The server forgets them by itself after an hour; a server that is away keeps nobody here.
      await Promise.allSettled(idle.map((name) => calls.deleteSession(name)));
    },
  };
}
