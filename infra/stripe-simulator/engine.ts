import type { Random } from '@triplock/runtime';
import type { Faults, LatencyShape } from './faults.ts';
import type { Limiters } from './limiters.ts';
import { expireAuthorization } from './operations/captures.ts';
import type { World } from './operations/operation.ts';
import { settlePayment } from './operations/payment-attempts.ts';
import { settleRefund } from './operations/refunds.ts';
import type { PaymentIntentRecord, RefundRecord } from './records.ts';
import { isHeld, type Account } from './store/account.ts';
import type { Change, KeptAnswer } from './store/journal.ts';
import type { Clock, Store } from './store/store.ts';

/** What can be changed while the simulator runs. A restart begins again from the environment. */
export type Dials = {
  latency: LatencyShape;
  searchLagMs: number;
  settleAfterMs: number;
  authorizedForMs: number;
  webhooks: WebhookSettings;
};

/** In which order due events are sent: as they come, or one after the other in a chosen order. */
export const webhookOrders = ['any', 'created', 'reversed', 'shuffled'] as const;

/** 30 days: https://docs.stripe.com/payments/extended-authorization */
export const authorizedForMsMax = 2_592_000_000;

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
  readonly limiters: Limiters;
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

type Unsettled = PaymentIntentRecord | RefundRecord;

/**
 * What happens by itself, as time passes: payments in processing and refunds on their way settle,
 * and authorisations that nobody captured expire.
 */
export function createSettling(engine: Engine): DueWork {
  return {
    nextInMs() {
      let next = Infinity;
      for (const row of unsettled(engine)) next = Math.min(next, dueAt(row) ?? Infinity);
      return next === Infinity ? undefined : next - engine.clock.now();
    },
    async pass() {
      const now = engine.clock.now();
      const due = [...unsettled(engine)].filter((row) => (dueAt(row) ?? Infinity) <= now);
      due.forEach((row) => settle(engine, row));
      await engine.store.settled();
      return due.length;
    },
  };
}

/** Undefined for what stays as it is for ever. */
function dueAt(row: Unsettled): number | undefined {
  const expiresAt = row.kind === 'payment_intent' ? row.captureBefore : null;
  return row.settlement?.at ?? expiresAt ?? undefined;
}

/** Settles one at once, or everything that would settle by itself one day; returns how many. */
export function settleNow(engine: Engine, id?: string): number {
  const chosen = [...unsettled(engine)].filter((row) => {
    if (row.settlement === null) return false;
    return id === undefined ? row.settlement.at !== null : row.id === id;
  });
  chosen.forEach((row) => settle(engine, row));
  return chosen.length;
}

/** Lets one authorisation expire at once, or all of them; returns how many. */
export function expireNow(engine: Engine, id?: string): number {
  const chosen = [...unsettled(engine)].filter((row) => {
    return isHeld(row) && (id === undefined || row.id === id);
  });
  chosen.forEach((row) => settle(engine, row));
  return chosen.length;
}

function settle(engine: Engine, row: Unsettled): void {
  const { account } = engine.store;
  const at = engine.clock.now();
  commitChange(engine, 'settlement', { change: settled(account, row, at) });
}

function settled(account: Account, row: Unsettled, at: number): Change {
  if (row.kind === 'refund') return settleRefund(account, row, at);
  if (row.captureBefore !== null) return expireAuthorization(account, row, at);
  return settlePayment(account, row, at);
}

function* unsettled({ store: { account } }: Engine): Iterable<Unsettled> {
  for (const id of account.unsettled) {
    const row = account.paymentIntents.get(id) ?? account.refunds.get(id);
    if (row !== undefined) yield row;
  }
}
