import type { Random } from '@triplock/runtime';
import type { Faults, LatencyShape } from './faults.ts';
import type { World } from './operations/operation.ts';
import type { Change, KeptAnswer } from './store/journal.ts';
import type { Clock, Store } from './store/store.ts';

/** What can be changed while the simulator runs. A restart begins again from the environment. */
export type Dials = {
  latency: LatencyShape;
  searchLagMs: number;
  settleAfterMs: number;
  webhooks: WebhookSettings;
};

/** In which order due events are sent: as they come, or one after the other in a chosen order. */
export const webhookOrders = ['any', 'created', 'reversed', 'shuffled'] as const;

/** Where events go, and how badly. */
export type WebhookSettings = {
  /** Null: events are made and can be listed, and are sent nowhere. */
  readonly url: string | null;
  /** `whsec_…`, as the receiver passes it to `constructEvent`. */
  readonly secret: string;
  readonly order: (typeof webhookOrders)[number];
  /** How often each event is sent, also when it was taken the first time. */
  readonly copies: number;
  /** Events wait until it is unpaused. */
  readonly paused: boolean;
};

/** The simulator without its server: what requests, timers and controls all work with. */
export type Engine = {
  readonly store: Store;
  readonly clock: Clock;
  readonly faults: Faults;
  readonly dials: Dials;
  readonly world: World;
  /** For latency and for the order of webhooks. */
  random: Random;
  /** Called when something may have become due. */
  changed(): void;
};

/** Commits a step: its events go to the webhook if there is one. */
export function commitChange(
  engine: Engine,
  by: string,
  made: { change: Change; keep?: () => KeptAnswer },
): void {
  engine.store.commit({ by, webhooks: engine.dials.webhooks.url !== null, ...made });
  engine.changed();
}

/** Work that becomes due by time. */
export type DueWork = {
  /** Milliseconds until the next pass has something to do; undefined: not by time alone. */
  nextInMs(): number | undefined;
  /** Does what is due, and returns how much that was. */
  pass(): Promise<number>;
};

/** One pass after the other, each when it is due. */
export type Alarm = {
  /** Looks again when the next pass is due: after every change, and when the clock is moved. */
  look(): void;
  /** No further pass begins; resolves when the one under way has ended. */
  close(): Promise<void>;
};

/** A timer cannot be set further ahead than this. */
const furthestMs = 2_147_483_647;

/** Runs the work when it is due. A pass that throws ends the loop and is given to `onError`. */
export function createAlarm(work: DueWork, onError: (error: unknown) => void): Alarm {
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | undefined;
  let closed = false;

  const look = () => {
    if (closed || running !== undefined) return;
    clearTimeout(timer);
    const nextInMs = work.nextInMs();
    if (nextInMs === undefined) return;
    timer = setTimeout(start, Math.min(Math.max(nextInMs, 0), furthestMs));
  };
  const start = () => {
    running = work.pass().then(
      () => {
        running = undefined;
        look();
      },
      (error: unknown) => {
        closed = true;
        onError(error);
      },
    );
  };
  return {
    look,
    async close() {
      closed = true;
      clearTimeout(timer);
      await running;
    },
  };
}
