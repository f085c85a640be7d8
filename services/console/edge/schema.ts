declare const described: unique symbol;

/** A JSON Schema (2020-12), as OpenAPI 3.1 takes it, of the JSON of a `Value`. */
export type Schema<Value = unknown> = Readonly<Record<string, unknown>> & {
  /** At no time there: by it the compiler knows the value of a schema. */
  readonly [described]?: Value;
};

/** What a schema describes, as it was before it became JSON. */
export type ValueOf<Of extends Schema> = Of extends Schema<infer Value> ? Value : never;

/** Schemas by the names that others refer to them by: `ref('Payment')`. */
export type Schemas = Readonly<Record<string, Schema>>;

export const text: Schema<string> = { type: 'string' };
export const flag: Schema<boolean> = { type: 'boolean' };
export const figure: Schema<number> = { type: 'number' };
export const whole: Schema<number> = { type: 'integer' };
/** PostgreSQL’s `bigint`, which a `number` cannot hold. */
export const bigWhole: Schema<bigint> = { type: 'integer' };
export const time: Schema<Date> = { type: 'string', format: 'date-time' };
export const day: Schema<string> = { type: 'string', format: 'date' };
export const uuid: Schema<string> = { type: 'string', format: 'uuid' };
export const minorUnits: Schema<bigint> = {
  type: 'integer',
  description: 'minor units of the currency',
};

/** Where a list goes on, in its answer. */
export const next: Schema<string> = {
  type: 'string',
  description: 'where the next page begins: send it as `after`',
};

/** The same, or null. Of what is referred to: {@link refOrNull}. */
export function orNull<Value>({ type, ...schema }: Schema<Value>): Schema<Value | null> {
  return { ...schema, type: [type, 'null'] };
}

export function listOf<Value>(items: Schema<Value>): Schema<Value[]> {
  return { type: 'array', items };
}

/** What is described elsewhere by this name. */
export function ref<Value>(name: string): Schema<Value> {
  return { $ref: `#/components/schemas/${name}` };
}

export function refOrNull(name: string): Schema {
  return { anyOf: [ref(name), { type: 'null' }] };
}

/** An object whose names are not known here, such as those of an audit's checks. */
export function byName<Value>(schema: Schema<Value>): Schema<Record<string, Value>> {
  return { type: 'object', additionalProperties: schema };
}

type Fields = Readonly<Record<string, Schema>>;
type ObjectOf<Of extends Fields, Optional extends keyof Of> = {
  -readonly [Name in Exclude<keyof Of, Optional>]: ValueOf<Of[Name]>;
} & { -readonly [Name in Optional]?: ValueOf<Of[Name]> };

/** An object of these fields and no others. */
export function object<Of extends Fields, Optional extends keyof Of & string = never>(
  properties: Of,
  optional: readonly Optional[] = [],
): Schema<ObjectOf<Of, Optional>> {
  const mayLack = new Set<string>(optional);
  const required = Object.keys(properties).filter((name) => !mayLack.has(name));
  return { type: 'object', required, properties, additionalProperties: false };
}

/**
 * The JSON of a type that is told elsewhere: what its reader gives and nobody describes does not
 * compile. JSON has no `undefined`, so what may be that is `optional`.
 */
export function shapeOf<Value>(
  properties: Readonly<Record<keyof Value & string, Schema>>,
  optional: readonly (keyof Value & string)[] = [],
): Schema {
  return object(properties, optional);
}
