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

/** The events still to be sent, by when they are due, and at one time as they came. */
export type Undelivered = {
  add(event: string, at: number): void;
  update(delivery: Delivery): void;
  remove(event: string): void;
  /** When the first of them is due; undefined when there is none. */
  nextAt(): number | undefined;
  /** How many are due at a time: the first so many of `slice`. */
  countDue(at: number): number;
  slice(start: number, end: number): readonly Delivery[];
  size(): number;
  clear(): void;
};

/**
 * Nothing to send. Kept in order, so that a look takes no longer for a long queue: most come due
 * behind all others, and leave from the front.
 */
function createUndelivered(): Undelivered {
  const byEvent = new Map<string, Delivery>();
  const queue: Delivery[] = [];

  /** Where the first stands that is due at or after a time. */
  const firstFrom = (at: number): number => {
    let [low, high] = [0, queue.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (queue[middle]!.dueAt < at) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const firstAfter = (at: number) => firstFrom(at + 1);
  const remove = (event: string) => {
    const known = byEvent.get(event);
    if (known === undefined || !byEvent.delete(event)) return;
    queue.splice(queue.indexOf(known, firstFrom(known.dueAt)), 1);
  };
  const update = (delivery: Delivery) => {
    remove(delivery.event);
    byEvent.set(delivery.event, delivery);
    queue.splice(firstAfter(delivery.dueAt), 0, delivery);
  };
  return {
    add: (event, at) => update({ event, since: at, attempts: 0, dueAt: at }),
    update,
    remove,
    nextAt: () => queue[0]?.dueAt,
    countDue: firstAfter,
    slice: (start, end) => queue.slice(start, end),
    size: () => queue.length,
    clear: () => {
      byEvent.clear();
      queue.length = 0;
    },
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
