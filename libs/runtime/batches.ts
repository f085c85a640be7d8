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
