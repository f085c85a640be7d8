import type { TxnId } from '@triplock/payments';

/** Ids of what was posted, and how much of the whole time is read with them: 1 is all of it. */
export type PostedPortion = { ids: readonly TxnId[]; part: number };

/**
 * So short that a slice of the busiest ledger is read in a moment; a day has a thousand or two. All
 * are of one length, however few are in them: what came in a burst is in slices as short.
 */
const sliceMs = 60_000;

/** Behind every time that a ledger has. */
const endOfTime = new Date('9999-12-31T00:00:00Z');

/**
 * Reads what a ledger has of the time up to now slice by slice, oldest first, so that a row whose
 * time moves on meanwhile is met again. The last slice has no end: a clock may be ahead.
 *
 * @param time how far it reaches back from the ledger's own now.
 * @param read the ids of one slice, from its beginning and before its end.
 */
export async function* inSlices(
  { now, ms }: { now: Date; ms: number },
  read: (from: Date, before: Date) => Promise<readonly TxnId[]>,
): AsyncGenerator<PostedPortion> {
  let leftMs = ms;
  for (; leftMs > sliceMs; leftMs -= sliceMs) {
    const from = new Date(+now - leftMs);
    const ids = await read(from, new Date(+from + sliceMs));
    yield { ids, part: 1 - (leftMs - sliceMs) / ms };
  }
  yield { ids: await read(new Date(+now - leftMs), endOfTime), part: 1 };
}
