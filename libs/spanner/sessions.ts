import type { Calls } from './calls.ts';

/** Sessions of one database, each used by one at a time: a session holds one transaction. */
export type Sessions = {
  /** Lends a session for the work. A session that `isLost` says is gone is not lent again. */
  lend<Result>(work: (session: Lent) => Promise<Result>): Promise<Result>;
  /** Waits for what is lent, and gives all sessions back to the server. */
  close(): Promise<void>;
};

/** A session while it is lent. */
export type Lent = {
  readonly name: string;
  /** Takes another in its place. */ renew(): Promise<void>;
};

/** Keeps up to `max` sessions; further callers wait in line. */
export function keepSessions(calls: Calls, max: number): Sessions {
  const idle: string[] = [];
  const line: (() => void)[] = [];
  let lent = 0;
  let closing: (() => void) | undefined;

  async function take(): Promise<void> {
    if (lent >= max) await new Promise<void>((turn) => line.push(turn));
    else lent += 1;
  }

  /** The place passes to the next in line without being free in between. */
  function giveBack(): void {
    const next = line.shift();
    if (next !== undefined) return next();
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
