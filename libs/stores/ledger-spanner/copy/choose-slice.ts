import type { Moment } from '../spanner/open-spanner.ts';
import { changedEvents, changedTransactions, fewChanged, type Changed } from './read-spanner.ts';

/** What is copied in one transaction: all that was changed last in a span of time. */
export type Slice = {
  transactionIds: readonly string[];
  eventIds: readonly string[];
  /** The end of the span. */
  untilMicros: bigint;
  /** Rows were changed after it, and are copied by later slices. */
  moreFollows: boolean;
};

/** Where a slice begins, and about how many rows of each table it has. */
export type SliceBound = { sinceMicros: bigint; rowsMax: number };

/**
 * Chooses the next slice as of a moment: up to the moment itself, unless more rows were changed
 * than a slice has. It ends between two times of commit, so no commit is parted.
 */
export async function chooseSlice(moment: Moment, bound: SliceBound): Promise<Slice> {
  const few = await fewChanged(moment, bound);
  if (few !== undefined) return { ...few, untilMicros: moment.readAtMicros, moreFollows: false };
  return chooseOfMany(moment, bound);
}

async function chooseOfMany(moment: Moment, bound: SliceBound): Promise<Slice> {
  const transactions = await changedTransactions(moment, bound);
  const events = await changedEvents(moment, bound);
  const ends = [...transactions.fullPartEnds, ...events.fullPartEnds];
  const moreFollows = ends.length > 0;
  // What a full part has behind its last row is not known, at the time of that row included.
  const untilMicros = moreFollows ? least(ends) - 1n : moment.readAtMicros;
  if (untilMicros <= bound.sinceMicros) {
    return chooseOfMany(moment, { ...bound, rowsMax: bound.rowsMax * 2 });
  }
  const upTo = ({ rows }: Changed) =>
    rows.filter(({ micros }) => micros <= untilMicros).map(({ id }) => id);
  return { transactionIds: upTo(transactions), eventIds: upTo(events), untilMicros, moreFollows };
}

function least(values: readonly bigint[]): bigint {
  return values.reduce((least, value) => (value < least ? value : least));
}
