import type { Logger } from '@triplock/runtime';
import type { ClaimOwner } from './claims.ts';

/** Releases claims that no request waits for any more. */
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
  /** How long a claim lasts from when the server made it. */
  leaseMs: number;
  logger: Logger;
};

/** The bound on memory, however long the server is away; the oldest make room. */
const waitingMax = 10_000;
/** Few enough that a server that is just back is not flooded. */
const atOnceMax = 100;
const firstPauseMs = 250;
const pauseMaxMs = 8_000;

/**
 * Releases claims of which an answer did not come, once the server answers again: else retries of
 * their requests would be answered for a whole lease that one is at work.
 *
 * A claim that was sent may reach the server long after its connection was given up, even after a
 * release that found nothing. So a release is tried, less and less often, until it met its claim or
 * the claim's lease would be over. It compares the owner token, so it never ends another's claim.
 *
 * A lease begins when the server makes the claim, which a server that stands still does only once
 * it goes on. So the time in which it is silent ends no lease: the count begins with its first
 * answer after it.
 */
export function releaseLate(options: LateReleaseOptions): LateReleases {
  const { leaseMs, logger } = options;
  const waiting = new Map<ClaimOwner['token'], { owner: ClaimOwner; until: number | undefined }>();
  let pauseMs = firstPauseMs;
  let next: { timer: NodeJS.Timeout; at: number } | undefined;
  let trying = false;
  let closed = false;

  const tryOne = async (owner: ClaimOwner): Promise<void> => {
    const outcome = await options.release(owner);
    const entry = waiting.get(owner.token);
    if (outcome === 'released') waiting.delete(owner.token);
    else if (entry !== undefined) entry.until ??= performance.now() + leaseMs;
  };
  const tryOnce = async (): Promise<void> => {
    const now = performance.now();
    for (const [token, { until = Infinity }] of waiting) if (until < now) waiting.delete(token);
    const owners = [...waiting.values()].map(({ owner }) => owner);
    for (let done = 0; done < owners.length; done += atOnceMax) {
      const tries = await Promise.allSettled(owners.slice(done, done + atOnceMax).map(tryOne));
      const silent = tries.find(({ status }) => status === 'rejected');
      if (silent === undefined) continue;
      for (const entry of waiting.values()) entry.until = undefined;
      throw (silent as PromiseRejectedResult).reason;
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
      logger.debug(
        { err, waiting: waiting.size },
        'claims that got no answer are waiting to be released',
      );
    });
    trying = false;
    schedule();
  };
  return {
    add: (owner) => {
      waiting.set(owner.token, { owner, until: undefined });
      if (waiting.size > waitingMax) waiting.delete(waiting.keys().next().value!);
      pauseMs = firstPauseMs;
      schedule();
    },
    close: async () => {
      closed = true;
      clearTimeout(next?.timer);
      await tryOnce().catch((err: unknown) => {
        logger.warn(
          { err, waiting: waiting.size },
          'claims that got no answer are left to expire with their leases',
        );
      });
    },
  };
}
