import type { Logger } from '@triplock/runtime';
import type { ClaimOwner } from '../claims.ts';

/** Lets go of claims that nobody waits for any more. */
export type LateReleases = {
  /** Nobody works on the claim, and whether it was made or released is unknown. */
  add(owner: ClaimOwner): void;
  /** Tries once more, then gives up on what is left: its lease ends by itself. */
  close(): Promise<void>;
};

/** How releases are made, and for how long they matter. */
export type LateReleaseOptions = {
  /** Rejects while the server is away. */
  release(owner: ClaimOwner): Promise<'released' | 'lost'>;
  /** A claim that is older needs no release. */
  leaseMs: number;
  logger: Logger;
};

/** More than can time out before the connection is given up; the oldest make room. */
const waitingMax = 10_000;
/** Few enough that a server that is just back is not flooded. */
const atOnceMax = 100;
const firstPauseMs = 250;
const pauseMaxMs = 8_000;

/**
 * Releases claims of which an answer did not come, once the server answers again: else retries of their
 * requests would be told for a whole lease that one is at work.
 *
 * A claim that was sent may reach the server long after its connection was given up, even after a
 * release that found nothing. So a release is tried, less and less often, until it met its claim or
 * the claim's lease would be over. It compares the owner token, so it never ends another's claim.
 */
export function releaseLate(options: LateReleaseOptions): LateReleases {
  const { leaseMs, logger } = options;
  const waiting = new Map<ClaimOwner['token'], { owner: ClaimOwner; until: number }>();
  let pauseMs = firstPauseMs;
  let next: { timer: NodeJS.Timeout; at: number } | undefined;
  let trying = false;
  let closed = false;

  const tryOnce = async (): Promise<void> => {
    const now = performance.now();
    for (const [token, { until }] of waiting) if (until < now) waiting.delete(token);
    const owners = [...waiting.values()].map(({ owner }) => owner);
    for (let done = 0; done < owners.length; done += atOnceMax) {
      const some = owners.slice(done, done + atOnceMax);
      await Promise.all(
        some.map(async (owner) => {
          if ((await options.release(owner)) === 'released') waiting.delete(owner.token);
        }),
      );
    }
  };
  const schedule = () => {
    if (closed || trying || waiting.size === 0) return;
    const at = performance.now() + pauseMs;
    if (next !== undefined && next.at <= at) return;
    clearTimeout(next?.timer);
    next = { timer: setTimeout(() => void round(), pauseMs).unref(), at };
  };
  const round = async () => {
    [next, trying] = [undefined, true];
    pauseMs = Math.min(pauseMs * 2, pauseMaxMs);
    await tryOnce().catch((err: unknown) => {
      logger.debug({ err, waiting: waiting.size }, 'claims without an answer wait to be released');
    });
    trying = false;
    schedule();
  };
  return {
    add: (owner) => {
      waiting.set(owner.token, { owner, until: performance.now() + leaseMs });
      if (waiting.size > waitingMax) waiting.delete(waiting.keys().next().value!);
      pauseMs = firstPauseMs;
      schedule();
    },
    close: async () => {
      closed = true;
      clearTimeout(next?.timer);
      await tryOnce().catch((err: unknown) => {
        logger.warn({ err, waiting: waiting.size }, 'claims without an answer are left to time');
      });
    },
  };
}
