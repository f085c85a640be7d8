/** Written instead of a time: Spanner puts the commit's own timestamp there. */
export const commitTimestamp = 'spanner.commit_timestamp()';

/**
 * What a column is written from, or a parameter is given as. Whole numbers only: money is no float.
 */
export type Value = string | bigint | number | boolean | Date | null | undefined;
/** A query's parameters by name. An array is of one type, and not empty unless it is of texts. */
export type Params = Readonly<Record<string, Value | readonly (string | bigint | number)[]>>;

/** A value as the API carries it. */
export type WireValue =
  | { nullValue: 0 }
  | { stringValue: string }
  | { boolValue: boolean }
  | { numberValue: number }
  | { listValue: { values: WireValue[] } };

type WireType = { code: string; arrayElementType?: WireType | null };

/** Whole numbers travel as text: a JSON number would lose the digits beyond 2^53. */
export function encodeValue(value: Value): WireValue {
  if (value === null || value === undefined) return { nullValue: 0 };
  if (typeof value === 'boolean') return { boolValue: value };
  if (typeof value === 'string') return { stringValue: value };
  if (value instanceof Date) return { stringValue: value.toISOString() };
  if (typeof value === 'number' && !Number.isSafeInteger(value)) {
    throw new RangeError(`${value} is not a whole number that can be held exactly`);
  }
  return { stringValue: String(value) };
}

/** The parameters of a statement, with the types that their values show; null takes any. */
export function encodeParams(params: Params) {
  const fields: Record<string, WireValue> = {};
  const paramTypes: Record<string, WireType> = {};
  for (const [name, value] of Object.entries(params)) {
    if (isList(value)) {
      fields[name] = { listValue: { values: value.map(encodeValue) } };
      paramTypes[name] = { code: 'ARRAY', arrayElementType: typeOf(value[0] ?? '')! };
      continue;
    }
    fields[name] = encodeValue(value);
    const type = typeOf(value);
    if (type !== undefined) paramTypes[name] = type;
  }
  return { params: { fields }, paramTypes };
}

function isList(value: Params[string]): value is readonly (string | bigint | number)[] {
  return Array.isArray(value);
}

function typeOf(value: Value): WireType | undefined {
  if (value === null || value === undefined) return undefined;
  if (value instanceof Date) return { code: 'TIMESTAMP' };
  if (typeof value === 'string') return { code: 'STRING' };
  return { code: typeof value === 'boolean' ? 'BOOL' : 'INT64' };
}

/** A result as the API gives it. */
export type WireResult = {
  metadata?: {
    rowType?: { fields?: { name?: string | null; type?: unknown }[] | null } | null;
  } | null;
  rows?: { values?: unknown[] | null }[] | null;
};

/**
 * Rows as objects: INT64 is a bigint, TIMESTAMP a Date (to the millisecond) or where `micros` names
 * the column a bigint, JSON what it says.
 */
export function decodeRows<Row>(result: WireResult, micros: readonly string[] = []): Row[] {
  const fields = result.metadata?.rowType?.fields ?? [];
  const names = fields.map(({ name }) => name ?? '');
  const types = fields.map(({ type }) => type as WireType);
  return (result.rows ?? []).map(({ values }) => {
    const row: Record<string, unknown> = {};
    for (const [at, name] of names.entries()) {
      const value = values![at] as WireValue;
      row[name] = micros.includes(name) ? microsOf(value) : decodeValue(value, types[at]!);
    }
    return row as Row;
  });
}

/** Of a time in RFC 3339 with up to nine digits behind the second. */
function microsOf(value: WireValue): bigint | null {
  if (!('stringValue' in value)) return null;
  const [second, fraction = ''] = value.stringValue.replace('Z', '').split('.');
  const seconds = BigInt(Date.parse(`${second}Z`) / 1_000);
  return seconds * 1_000_000n + BigInt(fraction.padEnd(6, '0').slice(0, 6));
}

function decodeValue(value: WireValue, type: WireType): unknown {
  if ('nullValue' in value) return null;
  if ('boolValue' in value) return value.boolValue;
  if ('numberValue' in value) return value.numberValue;
  if ('listValue' in value) {
    return value.listValue.values.map((each) => decodeValue(each, type.arrayElementType!));
  }
  switch (type.code) {
    case 'INT64':
      return BigInt(value.stringValue);
    case 'TIMESTAMP':
      return new Date(value.stringValue);
    case 'JSON':
      return JSON.parse(value.stringValue) as unknown;
    default:
      return value.stringValue;
  }
}

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
 * The keys that begin with some columns; where asked for, with a next one that is greater than a
 * value, or no greater than another.
 */
export type KeyRange = { prefix: readonly Value[]; after?: Value; upTo?: Value };

/** A lookup as the API takes it. */
export function encodeLookup({ table, index, columns, keys, limit }: Lookup) {
  return {
    table,
    columns: [...columns],
    keySet: encodeKeys(keys),
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

/** A row to write when the transaction commits. A column that is `undefined` is left as it is. */
export type Write =
  | {
      kind: 'insert' | 'update' | 'insertOrUpdate';
      table: string;
      row: Readonly<Record<string, Value>>;
    }
  | { kind: 'delete'; table: string; key: readonly Value[] }
  /** Every row of a table. */
  | { kind: 'deleteAll'; table: string };

/** Rows of one kind, table and set of columns that go together. */
type Mutation = { kind: Write['kind']; table: string; columns: string[]; rows: Value[][] };

/**
 * Writes as the API takes them, in their order; rows that follow one another and are alike are one.
 */
export function mutationsOf(writes: readonly Write[]): object[] {
  const mutations: Mutation[] = [];
  for (const write of writes) {
    const next = mutationOf(write);
    const last = mutations.at(-1);
    if (last !== undefined && areAlike(last, next)) last.rows.push(...next.rows);
    else mutations.push(next);
  }
  return mutations.map(encodeMutation);
}

function mutationOf(write: Write): Mutation {
  const { kind, table } = write;
  if (kind === 'deleteAll') return { kind, table, columns: [], rows: [] };
  if (kind === 'delete') return { kind, table, columns: [], rows: [[...write.key]] };
  const entries = Object.entries(write.row).filter(([, value]) => value !== undefined);
  const columns = entries.map(([column]) => column);
  return { kind, table, columns, rows: [entries.map(([, value]) => value)] };
}

function areAlike(one: Mutation, other: Mutation): boolean {
  const isSameTable = one.kind === other.kind && one.table === other.table;
  return isSameTable && one.columns.join() === other.columns.join();
}

function encodeMutation({ kind, table, columns, rows }: Mutation): object {
  if (kind === 'deleteAll') return { delete: { table, keySet: { all: true } } };
  const values = rows.map((row) => ({ values: row.map(encodeValue) }));
  if (kind === 'delete') return { delete: { table, keySet: { keys: values } } };
  return { [kind]: { table, columns, values } };
}
