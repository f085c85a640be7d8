import { setTimeout as delay } from 'node:timers/promises';
import type { Setting } from './settings.ts';

/** Every consumer of events: each can die after receiving one, and after the commit. */
const consumerNames = ['notifier', 'settlement', 'auditor'] as const;
export type ConsumerName = (typeof consumerNames)[number];

/**
 * The named points between two durable steps where a process can be made to die. Each is
 * reached after the step it names.
 */
export const crashPointNames = [
  'gateway.claimed',
  'gateway.produced',
  'gateway.completed',
  'worker.polled',
  'worker.committed',
  'worker.intent-created',
  'worker.intent-stored',
  'worker.charged',
  'worker.reserved',
  'worker.refunded',
  'worker.settled',
  'worker.dead-lettered',
  'worker.offset-committed',
  'dispatcher.leased',
  'dispatcher.published',
  'dispatcher.marked',
  ...consumerNames.flatMap((name) => [`${name}.received`, `${name}.committed`] as const),
  'webhook.leased',
  'webhook.answered',
  'webhook.recorded',
] as const;
export type CrashPointName = (typeof crashPointNames)[number];

/** What happens when an armed point is reached: die at once, throw, or pause for a while. */
export type CrashAction = { do: 'kill' } | { do: 'throw' } | { do: 'pause'; pauseMs: number };

/** One point to arm, and for how many hits (1 by default). */
export type CrashOrder = { name: CrashPointName; action: CrashAction; times?: number };

/** Thrown by a point that is armed with `throw`. */
export class CrashPointError extends Error {
  override name = 'CrashPointError';
}

/** Crash points by name; unarmed they cost one map look-up. */
export type CrashPoints = {
  /** To be called after the step it names. */
  reached(name: CrashPointName): Promise<void>;
  arm(order: CrashOrder): void;
  disarm(name: CrashPointName): void;
  /** Times each armed action fired, by name: a run counts only if its faults really did. */
  hits(): Readonly<Partial<Record<CrashPointName, number>>>;
};

/** Points that can be armed, for demo and test mode. */
export function createCrashPoints(plan: readonly CrashOrder[] = []): CrashPoints {
  const armed = new Map<CrashPointName, { action: CrashAction; left: number }>();
  const fired: Partial<Record<CrashPointName, number>> = {};
  const points: CrashPoints = {
    async reached(name) {
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
  arm: (order) => {
    throw new CrashPointError(`crash point ${order.name} cannot be armed in production mode`);
  },
  disarm: () => undefined,
  hits: () => ({}),
};

async function act(name: CrashPointName, action: CrashAction): Promise<void> {
  if (action.do === 'kill') {
    // SIGKILL, so that no handler, flush or drain runs: the same as a lost machine.
    process.kill(process.pid, 'SIGKILL');
    await new Promise(() => undefined);
  }
  if (action.do === 'throw') throw new CrashPointError(`crash point ${name}`);
  if (action.do === 'pause') await delay(action.pauseMs);
}

/** `name=kill`, `name=throw` or `name=pause:MS`, several separated by commas. */
export const crashPlan: Setting<readonly CrashOrder[]> = {
  expected: `NAME=kill|throw|pause:MS with NAME one of ${crashPointNames.join(', ')}`,
  parse: (value) => {
    const orders = value.split(',').map(parseOrder);
    return orders.every((order) => order !== undefined) ? orders : undefined;
  },
};

function parseOrder(value: string): CrashOrder | undefined {
  const [, point, verb, pauseMs] =
    /^([a-z.-]+)=(?:(kill|throw)|pause:(\d{1,6}))$/.exec(value.trim()) ?? [];
  const name = crashPointNames.find((each) => each === point);
  if (name === undefined) return undefined;
  if (pauseMs !== undefined) return { name, action: { do: 'pause', pauseMs: Number(pauseMs) } };
  return { name, action: { do: verb as 'kill' | 'throw' } };
}
