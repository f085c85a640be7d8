import { createRandom, type Random } from '@triplock/runtime';

/** What can go wrong, in the order of when it does. */
export const faultKinds = [
  // Before anything is looked at: no effect, nothing kept under the key.
  'rate-limit',
  'unavailable',
  'reset',
  'lock-timeout',
  // Not executed until the fault is removed, and the key is in use for as long.
  'hold',
  // Executed as far as the key is concerned: a 500 without and with the effect, kept for a day.
  'error',
  'error-after',
  // The effect and its answer are there, only the caller does not get it in time, or whole.
  'slow',
  'time-out',
  'reset-after',
  'half-body',
] as const;

export type FaultKind = (typeof faultKinds)[number];

/** A fault to be had. It strikes by chance, as long as it has not struck `count` times. */
export type FaultOrder = {
  readonly fault: FaultKind;
  /** A name such as `payment_intents.confirm`; absent: every operation. */
  readonly operation?: string;
  readonly probability?: number;
  readonly count?: number;
  /**
   * `slow`: how much longer the answer takes. `time-out`: after how long the socket closes.
   */
  readonly delayMs?: number;
  readonly retryAfterSeconds?: number;
};

/** A fault with what it did: "a run counts only if its faults really fired". */
export type Fault = FaultOrder & {
  readonly id: string;
  /** Requests that it could have struck. */
  readonly seen: number;
  readonly hits: number;
};

export type Faults = {
  add(order: FaultOrder): Fault;
  list(): readonly Fault[];
  remove(id: string): 'removed' | 'unknown';
  clear(): void;
  /** The fault that strikes this request, if any: the first one whose chance comes up. */
  strike(operation: string): Fault | undefined;
  /** Resolves once this fault is gone: removed, or cleared with all others. */
  gone(id: string): Promise<void>;
  /** Begins the chances again from this seed, for faults that are there and those to come. */
  reseed(seed: number): void;
};

type Switched = { fault: Fault; random: Random; gone: PromiseWithResolvers<void> };

/**
 * No faults yet. Each has chances of its own from the seed, so that another one does not shift
 * them.
 */
export function createFaults(firstSeed: number): Faults {
  const switched = new Map<string, Switched>();
  let seed = firstSeed;
  let added = 0;

  const randomOf = (id: string) => createRandom(seed ^ Math.imul(Number(id.slice(2)), 0x9e3779b1));
  const consider = (switchedOn: Switched, operation: string): boolean => {
    const { fault, random } = switchedOn;
    if (fault.operation !== undefined && fault.operation !== operation) return false;
    if (fault.count !== undefined && fault.hits >= fault.count) return false;
    const strikes = random() < (fault.probability ?? 1);
    const hits = fault.hits + (strikes ? 1 : 0);
    switched.set(fault.id, { ...switchedOn, fault: { ...fault, seen: fault.seen + 1, hits } });
    return strikes;
  };
  return {
    add(order) {
      added += 1;
      const fault: Fault = { ...order, id: `f-${added}`, seen: 0, hits: 0 };
      const gone = Promise.withResolvers<void>();
      switched.set(fault.id, { fault, random: randomOf(fault.id), gone });
      return fault;
    },
    list: () => [...switched.values()].map(({ fault }) => fault),
    remove(id) {
      switched.get(id)?.gone.resolve();
      return switched.delete(id) ? 'removed' : 'unknown';
    },
    clear() {
      for (const { gone } of switched.values()) gone.resolve();
      switched.clear();
    },
    gone: (id) => switched.get(id)?.gone.promise ?? Promise.resolve(),
    strike: (operation) => [...switched.values()].find((each) => consider(each, operation))?.fault,
    reseed(next) {
      seed = next;
      for (const [id, each] of switched) switched.set(id, { ...each, random: randomOf(id) });
    },
  };
}

/**
 * How long an operation takes before it is executed: log-normal, given by two of its quantiles.
 */
export type LatencyShape = { readonly medianMs: number; readonly p99Ms: number };

/** The 99th percentile of the standard normal distribution. */
const z99 = 2.326_348;

/**
 * One duration, in ms. A median of 0 is no latency; a p99 below the median counts as the median.
 */
export function drawLatencyMs({ medianMs, p99Ms }: LatencyShape, random: Random): number {
  if (medianMs <= 0) return 0;
  const sigma = Math.log(Math.max(p99Ms, medianMs) / medianMs) / z99;
  return medianMs * Math.exp(sigma * drawNormal(random));
}

/** Box and Muller's way from two even numbers to a normal one. */
function drawNormal(random: Random): number {
  const radius = Math.sqrt(-2 * Math.log(1 - random()));
  return radius * Math.cos(2 * Math.PI * random());
}
