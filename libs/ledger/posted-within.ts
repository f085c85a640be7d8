import type { TxnId } from '@triplock/payments';

/** Ids of what was posted, and how much of the whole time is read with them: 1 is all of it. */
export type PostedPortion = { ids: readonly TxnId[]; part: number };

/** So many a ledger reads in a moment, and whoever takes them in a few milliseconds. */
const idsMax = 20_000;

/** The first slice is so long, milliseconds; those behind it as few or many ids have them. */
const firstMs = 60_000;

/** What a ledger's times are counted in; of a slice so short all is read, however many that are. */
const leastMs = 1;

/** Behind every time that a ledger has, and more than any ledger has. */
const [endOfTime, unlimited] = [new Date('9999-12-31T00:00:00Z'), 2_000_000_000];

/** From its beginning, before its end, so many ids at most. */
export type Slice = { from: Date; before: Date; limit: number };

/**
 * Reads what a ledger has of the time up to now slice by slice, oldest first, so that a row whose
 * time moves on meanwhile is met again. One that has too many ids is read anew in shorter ones, and
 * a few hundred make a day. The last slice has no end: a clock may be ahead.
 *
 * @param time how far it reaches back from the ledger's own now.
 * @param read the ids of one slice.
 */
export async function* inSlices(
  { now, ms }: { now: Date; ms: number },
  read: (slice: Slice) => Promise<readonly TxnId[]>,
): AsyncGenerator<PostedPortion> {
  let [doneMs, sliceMs] = [0, firstMs];
  while (doneMs < ms) {
    const from = new Date(+now - ms + doneMs);
    const isLast = doneMs + sliceMs >= ms;
    const before = isLast ? endOfTime : new Date(+from + sliceMs);
    const limit = sliceMs > leastMs ? idsMax : unlimited;
    const ids = await read({ from, before, limit });
    if (ids.length === limit) {
      sliceMs = Math.max(leastMs, Math.floor(sliceMs / 4));
      continue;
    }
    doneMs = isLast ? ms : doneMs + sliceMs;
    yield { ids, part: doneMs / ms };
    if (ids.length < idsMax / 8) sliceMs *= 2;
  }
}
