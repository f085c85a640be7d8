import type { OwnerToken } from '@triplock/claims';
import type { OnceKey } from './effect.ts';

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
