declare const described: unique symbol;
const definition = Symbol('the schema of this name');
const lacking = Symbol('may be left out');

/** A JSON Schema (2020-12), as OpenAPI 3.1 takes it, of the JSON of a `Value`. */
export type Schema<Value = unknown> = Readonly<Record<string, unknown>> & {
  /** At no time there: by it the compiler knows the value of a schema. */
  readonly [described]?: Value;
  readonly [definition]?: { name: string; schema: Schema };
};

/** What a schema describes, as it was before it became JSON. */
export type ValueOf<Of extends Schema> = Of extends Schema<infer Value> ? Value : never;

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

/** A text that somebody sends: what it is. It ends "expected …" where it is another. */
export function sent(
  description: string,
  pattern = '^[^\\u0000-\\u001f\\u007f]*$',
): Schema<string> {
  return { type: 'string', pattern, description };
}

/** One of these texts; of one that is sent, what they are. */
export function choice<const Value extends string>(
  values: readonly Value[],
  description?: string,
): Schema<Value> {
  return { type: 'string', enum: values, ...(description !== undefined && { description }) };
}

/** This text and no other. */
export function only<const Value extends string>(value: Value): Schema<Value> {
  return { const: value };
}

/** The same, or null. */
export function orNull<Value>(schema: Schema<Value>): Schema<Value | null> {
  const { type, ...others } = schema;
  if (type === undefined) return { anyOf: [schema, { type: 'null' }] };
  return { ...others, type: [type, 'null'] };
}

export function listOf<Value>(items: Schema<Value>): Schema<Value[]> {
  return { type: 'array', items };
}

/** The schema under a name: the document has it once, and refers to it wherever it is used. */
export function named<Value>(name: string, schema: Schema<Value>): Schema<Value> {
  return { $ref: `${name}#`, [definition]: { name, schema } };
}

/** Every schema that has a name in what is given, by it, those in one another too. */
export function namedIn(part: unknown, found: Record<string, Schema> = {}): Record<string, Schema> {
  if (typeof part !== 'object' || part === null) return found;
  const { [definition]: its } = part as Schema;
  if (its !== undefined && !Object.hasOwn(found, its.name)) {
    found[its.name] = its.schema;
    namedIn(its.schema, found);
  }
  for (const each of Object.values(part)) namedIn(each, found);
  return found;
}

/** An object whose names are not known here, such as those of an audit's checks. */
export function byName<Value>(schema: Schema<Value>): Schema<Record<string, Value>> {
  return { type: 'object', additionalProperties: schema };
}

/** The same as a field that an object can go without. */
export function optional<Value>(schema: Schema<Value>): Schema<Value> & MayLack {
  return { ...schema, [lacking]: true };
}

type MayLack = { readonly [lacking]: true };
/** The schemas of an object's fields. */
export type Fields = Readonly<Record<string, Schema>>;
/** What an object of these fields holds. */
export type ObjectOf<Of extends Fields> = {
  -readonly [Name in keyof Of as Of[Name] extends MayLack ? never : Name]: ValueOf<Of[Name]>;
} & { -readonly [Name in keyof Of as Of[Name] extends MayLack ? Name : never]?: ValueOf<Of[Name]> };

/** An object of these fields and no others. */
export function object<Of extends Fields>(properties: Of): Schema<ObjectOf<Of>> {
  const required = Object.keys(properties).filter((name) => !(lacking in properties[name]!));
  return { type: 'object', required, properties, additionalProperties: false };
}

/** The same under a name. */
export function component<Of extends Fields>(name: string, properties: Of): Schema<ObjectOf<Of>> {
  return named(name, object(properties));
}

/** What a query can ask for: each of it may be left out. */
export function query<Of extends Fields>(
  properties: Of,
): Schema<{ [Name in keyof Of]?: ValueOf<Of[Name]> }> {
  return { type: 'object', properties, additionalProperties: false };
}

/**
 * The JSON of a type that is told elsewhere, under a name: what its reader gives and nobody
 * describes does not compile. JSON has no `undefined`, so what may be that is `optional`.
 */
export function shapeOf<Value>(
  name: string,
  properties: Readonly<Record<keyof Value & string, Schema>>,
): Schema<Value> {
  return named(name, object(properties) as Schema<Value>);
}
