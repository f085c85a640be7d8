import type { OwnerToken } from '@triplock/claims';

/** Which effect, and for which request. */
export type OnceKey = {
  /** What the key belongs to: a consumer, a route, a job. */
  scope: string;
  key: string;
  /** Tells a repeat from a key that was reused: a hash of everything the effect depends on. */
  fingerprint: string;
  /** How long the key is kept from the first start on; longer than any repeat may come late. */
  keepMs: number;
};

/** What asking for an effect came to. The result is what JSON made of it, also the first time. */
export type OnceOutcome<Result> =
  /** It happened now. */
  | { outcome: 'done'; result: Result }
  /** It happened before: the same result. */
  | { outcome: 'replayed'; result: Result }
  /** Another one is at work. */
  | { outcome: 'in-flight'; leaseLeftMs: number }
  /** The key belongs to another fingerprint. */
  | { outcome: 'reused' };

/** What an effect gets, so that its target can refuse a late one. */
export type EffectContext = {
  token: OwnerToken;
  /**
   * Grows with every start: what the effect writes to should refuse a smaller one than it has seen.
   */
  fence: bigint;
  /** Aborted when the lease is lost. */
  signal: AbortSignal;
};

/**
 * An effect that must not be tried again: thrown by it, kept under the key, and thrown alike to
 * every repeat. Anything else that an effect throws counts as passing: the key is free for the next
 * try.
 */
export class EffectFailedError extends Error {
  override name = 'EffectFailedError';
  /** For programs, e.g. `card_declined`. */
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** Who is at work on an effect. */
export type EffectOwner = Pick<OnceKey, 'scope' | 'key'> & { token: OwnerToken };

/** What starting an effect came to. Results are JSON texts. */
export type StartOutcome =
  | { outcome: 'started'; token: OwnerToken; fence: bigint }
  | { outcome: 'completed' | 'failed'; result: string }
  | { outcome: 'in-flight'; leaseLeftMs: number }
  | { outcome: 'reused' };

/** How an effect ended; `released` lets the next one start it. */
export type EffectEnd =
  { state: 'completed' | 'failed'; result: string } | { state: 'released'; result?: undefined };

/**
 * Remembers effects by scope and key. Every method is one atomic step, timed by the store's clock.
 */
export type OnceStore = {
  start(key: OnceKey & { leaseMs: number }): Promise<StartOutcome>;
  /** Makes the lease last from now on. */
  renew(owner: EffectOwner, leaseMs: number): Promise<'renewed' | 'lost'>;
  finish(owner: EffectOwner, end: EffectEnd): Promise<'finished' | 'lost'>;
};

/** A store with connections of its own. */
export type OpenedOnceStore = OnceStore & { close(): Promise<void> };

/** A store whose keys do not leave by themselves. */
export type ReapedOnceStore = OnceStore & {
  /** Takes out some keys that expired more than an hour ago, and returns how many. */
  reap(limits: { rowsMax: number }): Promise<number>;
};

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
    // Async, so that what an effect throws before its promise ends like what that rejects by.
    const have = async () => encodeResult(await effect({ token, fence, signal: lease.signal }));
    const text = await have().catch((error: unknown) => endFailed(store, started, error));
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
async function endFailed(store: OnceStore, started: Started, error: unknown): Promise<never> {
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

/** An effect in JSON is at most so long, in bytes of UTF-8. */
export const resultBytesMax = 256 * 1024;

/**
 * What is kept of a result.
 *
 * @throws EffectFailedError when it is too long or not JSON: the effect has happened, and a repeat
 * would have it again to no better end.
 */
export function encodeResult(result: unknown): string {
  // An effect without a result has one all the same: JSON knows no undefined.
  const text = textOf(result === undefined ? null : result);
  if (Buffer.byteLength(text) > resultBytesMax) {
    throw new EffectFailedError('result_too_long', `a result has ${resultBytesMax} bytes at most`);
  }
  return text;
}

function textOf(result: unknown): string {
  try {
    const text = JSON.stringify(result) as string | undefined;
    if (text !== undefined) return text;
  } catch (error) {
    // A bigint, a ring, or a toJSON that throws.
    const why = `a result has to be JSON: ${error instanceof Error ? error.message : String(error)}`;
    throw new EffectFailedError('result_not_json', why);
  }
  throw new EffectFailedError('result_not_json', `a result has to be JSON, not a ${typeof result}`);
}

/** What is kept of a failure. */
export function encodeFailure({ code, message }: EffectFailedError): string {
  return JSON.stringify({ code, message });
}

/** The failure as it was kept. */
export function decodeFailure(text: string): EffectFailedError {
  const { code, message } = JSON.parse(text) as { code: string; message: string };
  return new EffectFailedError(code, message);
}
