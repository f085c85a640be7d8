/** Written in place of a time: Spanner puts the commit's own timestamp there. */
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
    throw new RangeError(`${value} is not a whole number that is told exactly`);
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
