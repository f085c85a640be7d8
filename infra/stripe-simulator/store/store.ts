import { createHash } from 'node:crypto';
import type { Params, ParamValue } from '../wire/params.ts';
import { createAccount, type Account } from './account.ts';
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
        if (entry.change.charges?.some((charge) => !('captured' in charge))) throw ofOtherVersion();
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
        throw ofOtherVersion();
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

function ofOtherVersion(): Error {
  const next = 'begin with an empty one, as after `npm run down -- --volumes`';
  return new Error(`the journal is one of another version of the simulator: ${next}`);
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

/** What a key means for a request that carries it. */
export type KeyState =
  | { readonly outcome: 'first' }
  | { readonly outcome: 'in-use' }
  | { readonly outcome: 'other-path'; readonly path: string }
  | { readonly outcome: 'other-params' }
  | { readonly outcome: 'kept'; readonly answer: KeptAnswer };

/** A request as the idempotency layer sees it. */
export type KeyedRequest = {
  readonly key: string;
  readonly path: string;
  readonly fingerprint: string;
};

/** https://docs.stripe.com/api/idempotent_requests */
export type IdempotencyKeys = {
  /** Takes the key for this request when it is free; `release` or `keep` must follow then. */
  begin(request: KeyedRequest, at: number): KeyState;
  /** Frees a key whose request was refused before it was executed. */
  release(key: string): void;
  /** Keeps the answer, whatever it is: an executed request is answered the same way for a day. */
  keep(answer: KeptAnswer, at: number): void;
  clear(): void;
};

/** "You can remove keys from the system automatically after they're at least 24 hours old." */
const keptForMs = 24 * 60 * 60 * 1_000;

/** No key has been used yet. */
function createIdempotencyKeys(): IdempotencyKeys {
  const kept = new Map<string, { answer: KeptAnswer; at: number }>();
  const inUse = new Map<string, KeyedRequest>();

  const findKept = (key: string, now: number) => {
    const found = kept.get(key);
    if (found === undefined || now - found.at < keptForMs) return found?.answer;
    kept.delete(key);
    return undefined;
  };
  return {
    begin(request, at) {
      const answer = findKept(request.key, at);
      const earlier = answer ?? inUse.get(request.key);
      if (earlier === undefined) {
        inUse.set(request.key, request);
        return { outcome: 'first' };
      }
      if (earlier.path !== request.path) return { outcome: 'other-path', path: earlier.path };
      if (earlier.fingerprint !== request.fingerprint) return { outcome: 'other-params' };
      return answer === undefined ? { outcome: 'in-use' } : { outcome: 'kept', answer };
    },
    release: (key) => void inUse.delete(key),
    keep(answer, at) {
      inUse.delete(answer.key);
      kept.delete(answer.key);
      kept.set(answer.key, { answer, at });
      // A map lists its oldest first: whatever a day has passed over leaves from the front.
      for (const [key, oldest] of kept) {
        if (at - oldest.at < keptForMs) break;
        kept.delete(key);
      }
    },
    clear() {
      kept.clear();
      inUse.clear();
    },
  };
}

/** Covers the path and the parameters, whatever the order in which they were written. */
export function fingerprintOf(path: string, params: Params): string {
  return createHash('sha256')
    .update(`${path}\n${JSON.stringify(sorted(params))}`)
    .digest('hex');
}

function sorted(value: ParamValue): unknown {
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return (value as readonly ParamValue[]).map(sorted);
  const pairs = Object.entries(value as Params).map(
    ([name, each]) => [name, sorted(each)] as const,
  );
  // An array of pairs and not an object, so that no name is special.
  return pairs.sort(([a], [b]) => (a < b ? -1 : 1));
}
