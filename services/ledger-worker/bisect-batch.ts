/**
 * What to do with a batch, and what an error that blames one of its items comes to for that item.
 */
export type Attempt<Item, Result> = {
  run(items: readonly Item[]): Promise<Result[]>;
  /**
   * The result for an item that alone failed so, or `undefined` when the error is no item's fault.
   */
  blame(error: unknown): Result | undefined;
};

/**
 * Runs a batch; when one of it is to blame for a failure, runs its halves, one after the other, and
 * so on until the bad ones stand alone. Results come in the order of the items. One bad item among
 * n costs about 2·log2(n) more runs and none of its neighbours.
 *
 * @throws what is no item's fault, such as an outage.
 */
export async function bisectBatch<Item, Result>(
  items: readonly Item[],
  attempt: Attempt<Item, Result>,
): Promise<Result[]> {
  try {
    return await attempt.run(items);
  } catch (error) {
    const blamed = attempt.blame(error);
    if (blamed === undefined) throw error;
    if (items.length === 1) return [blamed];
    const middle = Math.ceil(items.length / 2);
    // In order, because an item may be a duplicate of one before it.
    const first = await bisectBatch(items.slice(0, middle), attempt);
    return [...first, ...(await bisectBatch(items.slice(middle), attempt))];
  }
}
