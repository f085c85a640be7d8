import { setImmediate as turnOfTheLoop } from 'node:timers/promises';

/**
 * How long after the beginning of a batch the next one begins at the soonest, and how many go
 * together.
 */
export type BatchLimits = { apartMs: number; itemsMax: number };

type Waiting<Item, Result> = { item: Item } & PromiseWithResolvers<Result>;

/**
 * Lets items share a transaction, whose round trips cost more than all that is done in it. One
 * batch is under way at a time, and what comes meanwhile is the next one; an item that comes after
 * a calm waits for nothing. `handle` returns a result for each item, in their order; when it fails,
 * each of them fails.
 */
export function gather<Item, Result>(
  handle: (items: readonly Item[]) => Promise<Result[]>,
  { apartMs, itemsMax }: BatchLimits,
): (item: Item) => Promise<Result> {
  const waiting: Waiting<Item, Result>[] = [];
  let rest = Promise.resolve();
  let busy = false;

  const handleBatch = async (batch: readonly Waiting<Item, Result>[]): Promise<void> => {
    try {
      const results = await handle(batch.map(({ item }) => item));
      for (const [at, { resolve }] of batch.entries()) resolve(results[at]!);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  };
  const handleAll = async (): Promise<void> => {
    busy = true;
    while (waiting.length > 0) {
      await rest;
      // What came by one read, and what the end of the last batch let through, goes together.
      await turnOfTheLoop();
      rest = new Promise((resolve) => setTimeout(resolve, apartMs));
      await handleBatch(waiting.splice(0, itemsMax));
    }
    busy = false;
  };
  return (item) => {
    const next = { item, ...Promise.withResolvers<Result>() };
    waiting.push(next);
    if (!busy) void handleAll();
    return next.promise;
  };
}
