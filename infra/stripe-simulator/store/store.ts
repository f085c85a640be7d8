import { createAccount, type Account } from './account.ts';
import { createIdempotencyKeys, type IdempotencyKeys } from './idempotency-keys.ts';
import { openJournal, type Change, type Entry, type KeptAnswer } from './journal.ts';

/**
 * Everything that is remembered: the account, the idempotency keys, the webhooks still to be sent.
 */
export type Store = {
  readonly account: Account;
  readonly keys: IdempotencyKeys;
  readonly undelivered: Undelivered;
  /**
   * Applies a step at once and appends it to the journal. Nothing of it may be shown to anyone
   * before `settled()`: whoever reads waits for it too, so that no answer ever shows what a crash
   * undoes.
   */
  commit(step: Step): void;
  /** The event is not sent again by itself: the endpoint took it, or was down for too long. */
  endDelivery(event: string, end: 'delivered' | 'gave-up'): void;
  moveClock(offsetMs: number): void;
  reset(): void;
  settled(): Promise<void>;
  journalSize(): number;
  close(): Promise<void>;
};

/**
 * One step: its cause, what changed, the answer to keep, and whether its events go to a webhook.
 */
export type Step = {
  readonly by: string;
  readonly change: Change;
  readonly webhooks: boolean;
  /** The answer to keep under a key; asked for once the change is applied. */
  keep?(): KeptAnswer;
};

/**
 * Opens the journal at `path` and makes the world from it. `onBroken`: it cannot be written any
 * more.
 */
export async function openStore(
  path: string,
  clock: Clock,
  onBroken: (error: Error) => void,
): Promise<Store> {
  const account = createAccount();
  const keys = createIdempotencyKeys();
  const undelivered = createUndelivered();

  const applyStep = ({ change, webhooks }: Step, at: number) => {
    account.apply(change, at);
    if (webhooks) change.events?.forEach(({ id }) => undelivered.add(id, at));
  };
  const apply = (entry: Entry) => {
    switch (entry.kind) {
      case 'step':
        applyStep(entry, entry.at);
        if (entry.answer !== undefined) keys.keep(entry.answer, entry.at);
        return;
      case 'webhook':
        return undelivered.remove(entry.event);
      case 'clock':
        return clock.setOffsetMs(entry.offsetMs);
      case 'reset':
        for (const each of [account, keys, undelivered]) each.clear();
        return;
      default:
        entry satisfies never;
        throw new Error('the journal is one of another version of the simulator');
    }
  };
  const journal = await openJournal(path, { replay: apply, broken: onBroken });
  const record = (entry: Entry) => {
    journal.append(entry);
    apply(entry);
  };
  return {
    account,
    keys,
    undelivered,
    commit({ keep, ...step }) {
      const at = clock.now();
      applyStep(step, at);
      const answer = keep?.();
      if (answer !== undefined) keys.keep(answer, at);
      journal.append({ kind: 'step', at, ...step, ...(answer && { answer }) });
    },
    endDelivery: (event, end) => record({ kind: 'webhook', at: clock.now(), event, end }),
    moveClock: (offsetMs) => record({ kind: 'clock', at: clock.now(), offsetMs }),
    reset: () => record({ kind: 'reset', at: clock.now() }),
    settled: () => journal.settled(),
    journalSize: () => journal.size(),
    close: () => journal.close(),
  };
}

/**
 * An event that the webhook endpoint has not taken yet. `dueAt` is the simulator's clock, in ms.
 */
export type Delivery = {
  readonly event: string;
  readonly since: number;
  readonly attempts: number;
  readonly dueAt: number;
};

/** The events still to be sent, oldest first. */
export type Undelivered = {
  add(event: string, at: number): void;
  get(event: string): Delivery | undefined;
  update(delivery: Delivery): void;
  remove(event: string): void;
  all(): Iterable<Delivery>;
  size(): number;
  clear(): void;
};

/** Nothing to send. */
function createUndelivered(): Undelivered {
  const deliveries = new Map<string, Delivery>();
  return {
    add: (event, at) => void deliveries.set(event, { event, since: at, attempts: 0, dueAt: at }),
    get: (event) => deliveries.get(event),
    update: (delivery) => void deliveries.set(delivery.event, delivery),
    remove: (event) => void deliveries.delete(event),
    all: () => deliveries.values(),
    size: () => deliveries.size,
    clear: () => deliveries.clear(),
  };
}

/** The simulator's clock: the machine's, moved by an offset, so that a day passes in a moment. */
export type Clock = {
  /** Milliseconds since 1970, as the simulator sees it. */
  now(): number;
  offsetMs(): number;
  setOffsetMs(offsetMs: number): void;
};

/** A clock that runs with the machine's until it is moved. */
export function createClock(machine: () => number = Date.now): Clock {
  let offset = 0;
  return {
    now: () => machine() + offset,
    offsetMs: () => offset,
    setOffsetMs(offsetMs) {
      offset = offsetMs;
    },
  };
}
