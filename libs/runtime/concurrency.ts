import { setTimeout as delay } from 'node:timers/promises';

/** How much goes together, and how often. */
export type BatchLimits<Item = unknown> = {
  /** The most items of a batch. One that alone counts as more goes alone. */
  itemsMax: number;
  /** As how many items one counts, such as the rows that it brings; 1 by default. */
  countOf?: (item: Item) => number;
  /**
   * The least time from the beginning of a batch to that of the next, milliseconds; 0 by default.
   * A batch that is full does not wait for it.
   */
  apartMs?: number;
  /** Batches under way at once; 1 by default. */
  batchesMax?: number;
  /** Items that may wait. Without a limit, whoever adds them has to bound them. */
  waitingMax?: number;
};

/** Thrown at whoever comes when `waitingMax` items wait already. */
export class TooManyWaitingError extends Error {
  override name = 'TooManyWaitingError';
}

/**
 * The one way to do work in batches: while a batch is under way, the next one gathers. So a
 * transaction or a request, whose round trip costs more than all that is done in it, is shared
 * by everything that came meanwhile; and an item that comes after a calm waits for nothing but the
 * end of this turn of the event loop, so that what came by one read goes together.
 *
 * `handle` returns a result for each item, in their order. When it fails, each of them fails: what
 * one bad item must not do to the others is for `handle` to see to.
 *
 * @throws TooManyWaitingError (as a rejection) when `waitingMax` is reached.
 */
export function inBatches<Item, Result>(
  handle: (items: readonly Item[]) => Promise<readonly Result[]>,
  limits: BatchLimits<NoInfer<Item>>,
): (item: Item) => Promise<Result> {
  const { countOf, ...others } = limits;
  const batches = openBatches<Waiting<Item, Result>>(
    async (batch) => {
      try {
        const results = await handle(batch.map(({ item }) => item));
        for (const [at, { resolve }] of batch.entries()) resolve(results[at]!);
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    },
    countOf === undefined ? others : { ...others, countOf: ({ item }) => countOf(item) },
  );
  return (item) => {
    const waiting = { item, ...Promise.withResolvers<Result>() };
    try {
      batches.add(waiting);
    } catch (error) {
      waiting.reject(error);
    }
    return waiting.promise;
  };
}

type Waiting<Item, Result> = { item: Item } & PromiseWithResolvers<Result>;

/** Items whose sender waits for no result. */
export type Batches<Item> = {
  /** @throws TooManyWaitingError when `waitingMax` is reached. */
  add(item: Item): void;
  /** Resolves when nothing waits and nothing is under way. */
  drained(): Promise<void>;
};

/** The same for items that have no result, such as acks. `handle` must not reject. */
export function openBatches<Item>(
  handle: (items: Item[]) => Promise<void>,
  limits: BatchLimits<Item>,
): Batches<Item> {
  const { itemsMax, apartMs = 0, batchesMax = 1, waitingMax = Infinity } = limits;
  const countOf = limits.countOf ?? (() => 1);
  const waiting: Item[] = [];
  let counted = 0;
  let underWay = 0;
  let isBeginning = false;
  let resting: NodeJS.Timeout | undefined;
  let drained: PromiseWithResolvers<void> | undefined;

  const take = (): Item[] => {
    let length = 0;
    let taken = 0;
    while (length < waiting.length) {
      const count = countOf(waiting[length]!);
      if (length > 0 && taken + count > itemsMax) break;
      length += 1;
      taken += count;
    }
    counted -= taken;
    return waiting.splice(0, length);
  };
  const beginWhenDue = () => {
    if (isBeginning || waiting.length === 0 || underWay >= batchesMax) return;
    if (resting !== undefined && counted < itemsMax) return;
    isBeginning = true;
    setImmediate(begin);
  };
  const begin = () => {
    isBeginning = false;
    underWay += 1;
    if (apartMs > 0) rest();
    void handle(take()).finally(end);
    beginWhenDue();
  };
  const rest = () => {
    clearTimeout(resting);
    resting = setTimeout(() => {
      resting = undefined;
      beginWhenDue();
    }, apartMs);
  };
  const end = () => {
    underWay -= 1;
    beginWhenDue();
    if (underWay > 0 || waiting.length > 0) return;
    drained?.resolve();
    drained = undefined;
  };
  return {
    add: (item) => {
      if (waiting.length >= waitingMax) throw new TooManyWaitingError(`${waitingMax} wait already`);
      waiting.push(item);
      counted += countOf(item);
      beginWhenDue();
    },
    drained: () => {
      if (underWay === 0 && waiting.length === 0) return Promise.resolve();
      return (drained ??= Promise.withResolvers<void>()).promise;
    },
  };
}

/**
 * The one way to bound how much is done at once: a semaphore. Whoever takes a slot releases it,
 * also when the work failed; nothing does that by itself.
 */
export type Slots = {
  /**
   * Waits for a slot. Callers of different names get slots in turn and those of one name in their
   * order, so that a busy caller keeps no other from its work.
   */
  take(caller?: string): Promise<void>;
  /**
   * Takes up to `wanted` at once, of those that are free, and returns how many. None is free while
   * anybody waits.
   */
  takeFree(wanted: number): number;
  /** Gives one back, or so many, to those who wait next. */
  release(slots?: number): void;
  /** How many could be taken at once. */
  free(): number;
  /** How many wait for one, of this name or of all. */
  waiting(caller?: string): number;
};

/** Opens `slotsMax` slots, all of them free. */
export function openSlots(slotsMax: number): Slots {
  /** By caller; who got one last is at the end. */
  const waiting = new Map<string, (() => void)[]>();
  let taken = 0;

  const takeFree = (wanted: number): number => {
    const some = Math.max(0, Math.min(wanted, slotsMax - taken));
    taken += some;
    return some;
  };
  const releaseOne = () => {
    const next = waiting.entries().next().value;
    if (next === undefined) {
      taken -= 1;
      return;
    }
    // The slot passes on and stays taken.
    const [caller, queue] = next;
    waiting.delete(caller);
    const granted = queue.shift()!;
    if (queue.length > 0) waiting.set(caller, queue);
    granted();
  };
  return {
    take: (caller = '') => {
      if (takeFree(1) === 1) return Promise.resolve();
      return new Promise((granted) => {
        const queue = waiting.get(caller);
        if (queue === undefined) waiting.set(caller, [granted]);
        else queue.push(granted);
      });
    },
    takeFree,
    release: (slots = 1) => {
      for (let slot = 0; slot < slots; slot += 1) releaseOne();
    },
    free: () => slotsMax - taken,
    waiting: (caller) =>
      caller === undefined
        ? [...waiting.values()].reduce((sum, { length }) => sum + length, 0)
        : (waiting.get(caller)?.length ?? 0),
  };
}

/**
 * The one way to read a thing once for all who wait for it together. Who comes while a read of it
 * is under way waits for the next one, which all of them share: whoever gets an answer came before
 * it was asked for, so none is older than the question. Different keys do not wait for each other;
 * a read without a key is `shareReads(async () => …)`.
 *
 * A read that fails fails for all who shared it, and the next one asks anew. With `apartMs`, a read
 * begins that many milliseconds after the one before it, at the soonest.
 */
export function shareReads<Key = void, Value = unknown>(
  read: (key: Key) => Promise<Value>,
  apart: { apartMs?: number } = {},
): (key: Key) => Promise<Value> {
  const share = openSharedReads<Key, Value>(apart);
  return (key) => share(key, () => read(key));
}

/**
 * The same where whoever asks brings how to read: what two ask for by one key must be the same, and
 * is read as the first of them does it.
 */
export function openSharedReads<Key, Value>({ apartMs = 0 }: { apartMs?: number } = {}): (
  key: Key,
  read: () => Promise<Value>,
) => Promise<Value> {
  const underWay = new Map<Key, Promise<unknown>>();
  const next = new Map<Key, Promise<Value>>();

  const begin = (key: Key, read: () => Promise<Value>): Promise<Value> => {
    next.delete(key);
    const answer = read();
    // Before it leaves, whoever came meanwhile is in `next`: two are never under way.
    const ended = Promise.allSettled(apartMs > 0 ? [answer, delay(apartMs)] : [answer]);
    underWay.set(
      key,
      ended.then(() => underWay.delete(key)),
    );
    return answer;
  };

  return (key, read) => {
    const waiting = next.get(key);
    if (waiting !== undefined) return waiting;
    const before = underWay.get(key);
    if (before === undefined) return begin(key, read);
    const answer = before.then(() => begin(key, read));
    next.set(key, answer);
    return answer;
  };
}

/**
 * The one way to do no more than so much in a second: resolves for one caller after the other, in
 * their order, so that no more than so many begin in one.
 */
export function paceOf(perSecondMax: number): () => Promise<void> {
  const apartMs = 1_000 / perSecondMax;
  let nextMs = 0;
  return async () => {
    const nowMs = performance.now();
    nextMs = Math.max(nextMs, nowMs);
    const waitMs = nextMs - nowMs;
    nextMs += apartMs;
    if (waitMs > 0) await delay(waitMs);
  };
}

/** Counts what each caller does, and says which one does too much. */
export type RateLimiter = {
  /** Takes a token, or as many as what is asked for costs; more than a burst costs a burst. */
  take(who: string, tokens?: number): Taken;
};

/** `limited`: nothing was taken, and there are as many again in so many seconds, 1 at least. */
export type Taken = { outcome: 'granted' } | { outcome: 'limited'; retryAfterSeconds: number };

/** So many a second, and so many at once after a rest. */
export type Rate = { perSecond: number; burst: number };

// Whoever is forgotten begins with a full burst. At about 100 bytes each it is a megabyte.
const rememberedMax = 10_000;

const granted: Taken = { outcome: 'granted' };

/**
 * A token bucket for each name, in the memory of this process: several gateways grant as many times
 * as much together. `clock` gives milliseconds; tests set it.
 *
 * A limit shared through Redis would cost every request a round trip to it, to be exact about a
 * number that is there to protect this process.
 */
export function createRateLimiter(
  { perSecond, burst }: Rate,
  clock: () => number = () => performance.now(),
): RateLimiter {
  const buckets = new Map<string, { tokens: number; atMs: number }>();
  const bucketOf = (who: string, nowMs: number) => {
    const known = buckets.get(who);
    if (known !== undefined) return known;
    // A Map keeps the order of insertion, so the first key is the oldest.
    if (buckets.size >= rememberedMax) buckets.delete(buckets.keys().next().value!);
    const bucket = { tokens: burst, atMs: nowMs };
    buckets.set(who, bucket);
    return bucket;
  };
  return {
    take(who, tokens = 1) {
      const wanted = Math.min(tokens, burst);
      const nowMs = clock();
      const bucket = bucketOf(who, nowMs);
      const grown = ((nowMs - bucket.atMs) * perSecond) / 1_000;
      bucket.tokens = Math.min(burst, bucket.tokens + grown);
      bucket.atMs = nowMs;
      if (bucket.tokens >= wanted) {
        bucket.tokens -= wanted;
        return granted;
      }
      const retryAfterSeconds = Math.max(1, Math.ceil((wanted - bucket.tokens) / perSecond));
      return { outcome: 'limited', retryAfterSeconds };
    },
  };
}
