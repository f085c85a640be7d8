import { writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { Setting } from './settings.ts';

/** What happens when an armed point is reached: die at once, throw, or pause for a while. */
export type CrashAction = { do: 'kill' } | { do: 'throw' } | { do: 'pause'; pauseMs: number };

/**
 * One point to arm, and for how many hits (1 by default). Points stand between two durable steps,
 * each after the step it names; a service declares its own in service.ts.
 */
export type CrashOrder = { name: string; action: CrashAction; times?: number };

/** Thrown by a point that is armed with `throw`. */
export class CrashPointError extends Error {
  override name = 'CrashPointError';
}

/** Crash points by name; unarmed they cost one map look-up. */
export type CrashPoints = {
  /** To be called after the step it names. */
  reached(name: string): Promise<void>;
  /** Whether the service has a point of that name. */
  has(name: string): boolean;
  arm(order: CrashOrder): void;
  disarm(name: string): void;
  /** Times each armed action fired, by name: a run counts only if its faults really did. */
  hits(): Readonly<Partial<Record<string, number>>>;
};

/**
 * Points that can be armed, for demo and test mode.
 *
 * @param names those that the service declares; one that is not among them is a bug where it is
 * reached. Without them every name is taken, for tests of a part of a service.
 */
export function createCrashPoints(
  plan: readonly CrashOrder[] = [],
  names?: readonly string[],
): CrashPoints {
  const armed = new Map<string, { action: CrashAction; left: number }>();
  const fired: Partial<Record<string, number>> = {};
  const has = (name: string) => names?.includes(name) ?? true;
  const points: CrashPoints = {
    has,
    async reached(name) {
      if (!has(name)) throw new CrashPointError(`service.ts declares no crash point ${name}`);
      const order = armed.get(name);
      if (order === undefined) return;
      order.left -= 1;
      if (order.left <= 0) armed.delete(name);
      fired[name] = (fired[name] ?? 0) + 1;
      await act(name, order.action);
    },
    arm: (order) => void armed.set(order.name, { action: order.action, left: order.times ?? 1 }),
    disarm: (name) => void armed.delete(name),
    hits: () => ({ ...fired }),
  };
  for (const order of plan) points.arm(order);
  return points;
}

/** Points that cannot be armed, for production. */
export const noCrashPoints: CrashPoints = {
  reached: () => Promise.resolve(),
  has: () => false,
  arm: (order) => {
    throw new CrashPointError(`crash point ${order.name} cannot be armed in production mode`);
  },
  disarm: () => undefined,
  hits: () => ({}),
};

async function act(name: string, action: CrashAction): Promise<void> {
  if (action.do === 'kill') {
    try {
      // Its last words, by which whoever starts again what ends by itself leaves it dead.
      writeSync(2, `crash point ${name}: the process ends here\n`);
    } finally {
      // SIGKILL, so that no handler, flush or drain runs: the same as a lost machine.
      process.kill(process.pid, 'SIGKILL');
    }
    await new Promise(() => undefined);
  }
  if (action.do === 'throw') throw new CrashPointError(`crash point ${name}`);
  if (action.do === 'pause') await delay(action.pauseMs);
}

/** `name=kill`, `name=throw` or `name=pause:MS`, several separated by commas. */
export const crashPlan: Setting<readonly CrashOrder[]> = {
  expected: 'NAME=kill|throw|pause:MS',
  parse: (value) => {
    const orders = value.split(',').map(parseOrder);
    return orders.every((order) => order !== undefined) ? orders : undefined;
  },
};

function parseOrder(value: string): CrashOrder | undefined {
  const [, name, verb, pauseMs] =
    /^([a-z.-]+)=(?:(kill|throw)|pause:(\d{1,6}))$/.exec(value.trim()) ?? [];
  if (name === undefined) return undefined;
  if (pauseMs !== undefined) return { name, action: { do: 'pause', pauseMs: Number(pauseMs) } };
  return { name, action: { do: verb as 'kill' | 'throw' } };
}

/** Numbers from 0 to below 1, the same for the same seed. Nothing secret may hang on them. */
export type Random = () => number;

/** Mulberry32, https://gist.github.com/tommyettinger/46a874533244883189143505d203312c */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** The same in another order, by Fisher and Yates. */
export function shuffled<Item>(items: readonly Item[], random: Random): Item[] {
  const all = [...items];
  for (let last = all.length - 1; last > 0; last -= 1) {
    const other = Math.floor(random() * (last + 1));
    [all[last], all[other]] = [all[other]!, all[last]!];
  }
  return all;
}
