import { createRandom, type Random } from './random.ts';

/** What can go wrong, in the order of when it does. */
export const faultKinds = [
  // Before anything is looked at: no effect, nothing kept under the key.
  'rate-limit',
  'unavailable',
  'reset',
  'lock-timeout',
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
  /** Of `slow`: how much longer the answer takes. Of `time-out`: after how long the socket closes. */
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
  /** Begins the chances again from this seed, for faults that are there and those to come. */
  reseed(seed: number): void;
};

type Switched = { fault: Fault; random: Random };

/** No faults yet. Each has chances of its own from the seed, so that another one does not shift them. */
export function createFaults(firstSeed: number): Faults {
  const switched = new Map<string, Switched>();
  let seed = firstSeed;
  let added = 0;

  const randomOf = (id: string) => createRandom(seed ^ Math.imul(Number(id.slice(2)), 0x9e3779b1));
  const consider = ({ fault, random }: Switched, operation: string): boolean => {
    if (fault.operation !== undefined && fault.operation !== operation) return false;
    if (fault.count !== undefined && fault.hits >= fault.count) return false;
    const strikes = random() < (fault.probability ?? 1);
    const hits = fault.hits + (strikes ? 1 : 0);
    switched.set(fault.id, { fault: { ...fault, seen: fault.seen + 1, hits }, random });
    return strikes;
  };
  return {
    add(order) {
      added += 1;
      const fault: Fault = { ...order, id: `f-${added}`, seen: 0, hits: 0 };
      switched.set(fault.id, { fault, random: randomOf(fault.id) });
      return fault;
    },
    list: () => [...switched.values()].map(({ fault }) => fault),
    remove: (id) => (switched.delete(id) ? 'removed' : 'unknown'),
    clear: () => switched.clear(),
    strike: (operation) => [...switched.values()].find((each) => consider(each, operation))?.fault,
    reseed(next) {
      seed = next;
      for (const [id, { fault }] of switched) switched.set(id, { fault, random: randomOf(id) });
    },
  };
}
