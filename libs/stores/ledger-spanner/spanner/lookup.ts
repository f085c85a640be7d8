import { encodeValue, type Value } from './values.ts';

/**
 * Rows chosen by their keys. Cheaper than a statement, because there is nothing to plan; and the
 * emulator, which walks a whole table for every statement, finds them at once.
 *
 * https://cloud.google.com/spanner/docs/reads
 */
export type Lookup = {
  table: string;
  /** Whose keys are meant, instead of the table's; only columns that it holds can be had then. */
  index?: string;
  columns: readonly string[];
  /** Whole keys, or all that begin alike, or every one. A key without a row gives none. */
  keys: readonly (readonly Value[])[] | { ranges: readonly KeyRange[] } | 'all';
  /** Rows at most, the first in the order of keys; all by default. */
  limit?: number;
  /** Columns of times to give in microseconds since 1970, as bigints; a Date has fewer digits. */
  micros?: readonly string[];
};

/**
 * The keys that begin with some columns; where it is told, with a next one that is greater than a
 * value, or no greater than another.
 */
export type KeyRange = { prefix: readonly Value[]; after?: Value; upTo?: Value };

/** A lookup as the API takes it. */
export function encodeLookup({ table, index, columns, keys, limit }: Lookup) {
  return {
    ...{ table, columns: [...columns], keySet: encodeKeys(keys) },
    ...(index !== undefined && { index }),
    ...(limit !== undefined && { limit }),
  };
}

function encodeKeys(keys: Lookup['keys']) {
  if (keys === 'all') return { all: true };
  return 'ranges' in keys
    ? { ranges: keys.ranges.map(encodeRange) }
    : { keys: keys.map(encodeKey) };
}

function encodeRange({ prefix, after, upTo }: KeyRange) {
  const endClosed = encodeKey(upTo === undefined ? prefix : [...prefix, upTo]);
  if (after === undefined) return { startClosed: encodeKey(prefix), endClosed };
  return { startOpen: encodeKey([...prefix, after]), endClosed };
}

const encodeKey = (key: readonly Value[]) => ({ values: key.map(encodeValue) });
