import {
  decodeFailure,
  EffectFailedError,
  encodeFailure,
  encodeResult,
  type EffectContext,
  type OnceKey,
  type OnceOutcome,
} from './effect.ts';
import type { EffectOwner, OnceStore } from './once-store.ts';

/** As often as a lease is renewed: two renewals may fail before it is over. */
const renewalsPerLease = 3;

/**
 * Has an effect once per key where the effect is outside of the store's database: a call to another
 * service, a mail, a file. Started → completed (the result is kept and replayed), failed (an
 * EffectFailedError is kept and thrown alike to every repeat), or released (anything else it
 * throws).
 *
 * A crash between the effect and its record leaves the key in flight until its lease is over; the
 * next one then has the effect again. So the effect must bear being repeated, by the fence or by a
 * key of its own (an Idempotency-Key of the other service), and `once` makes that rare and orderly.
 * The lease is renewed for as long as the effect takes. Losing it all the same, by a pause longer
 * than the lease, aborts the signal; the result that counts is then the new owner's.
 *
 * @throws what the effect threw, now or before; an AggregateError when that could not be kept; or
 * the store's error, and then it is unknown whether the effect is recorded.
 */
export async function once<Result>(
  store: OnceStore,
  step: OnceKey & { leaseMs: number },
  effect: (context: EffectContext) => Promise<Result>,
): Promise<OnceOutcome<Result> | { outcome: 'taken-over' }> {
  if (step.keepMs <= step.leaseMs) throw new RangeError('a key has to be kept longer than a lease');
  const started = await store.start(step);
  switch (started.outcome) {
    case 'started':
      return perform(store, { ...step, ...started }, effect);
    case 'completed':
      return { outcome: 'replayed', result: JSON.parse(started.result) as Result };
    case 'failed':
      throw decodeFailure(started.result);
    case 'in-flight':
    case 'reused':
      return started;
    default:
      return started satisfies never;
  }
}

type Started = EffectOwner & { leaseMs: number; fence: bigint };

async function perform<Result>(
  store: OnceStore,
  started: Started,
  effect: (context: EffectContext) => Promise<Result>,
): Promise<{ outcome: 'done'; result: Result } | { outcome: 'taken-over' }> {
  const lease = keepLease(store, started);
  try {
    const { token, fence } = started;
    // Async, so that what an effect throws before its promise is let go of like what that rejects
    // by.
    const have = async () => encodeResult(await effect({ token, fence, signal: lease.signal }));
    const text = await have().catch((error: unknown) => letGo(store, started, error));
    // When this is not answered the effect has happened and its record is unknown: the key stays in
    // flight until its lease is over, or is completed after all.
    const kept = await store.finish(started, { state: 'completed', result: text });
    if (kept === 'lost') return { outcome: 'taken-over' };
    return { outcome: 'done', result: JSON.parse(text) as Result };
  } finally {
    lease.stop();
  }
}

/** Keeps a failure that is final and frees the key after any other; throws it in either case. */
async function letGo(store: OnceStore, started: Started, error: unknown): Promise<never> {
  const isFinal = error instanceof EffectFailedError;
  try {
    await store.finish(
      started,
      isFinal ? { state: 'failed', result: encodeFailure(error) } : { state: 'released' },
    );
  } catch (storeError) {
    const both = [error, storeError];
    throw new AggregateError(both, 'the effect failed, and that could not be kept');
  }
  throw error;
}

/** Renews the lease until it is stopped or lost. */
function keepLease(store: OnceStore, started: Started) {
  const losing = new AbortController();
  const everyMs = Math.max(1, Math.floor(started.leaseMs / renewalsPerLease));
  const timer = setInterval(() => {
    store.renew(started, started.leaseMs).then(
      (renewed) => {
        if (renewed === 'lost') losing.abort(new Error('the lease was lost to another owner'));
      },
      // The store is away: the next renewal may still come in time, and only losing the lease
      // counts.
      () => undefined,
    );
  }, everyMs).unref();
  return { signal: losing.signal, stop: () => clearInterval(timer) };
}
