/** A JSON Schema (2020-12), as OpenAPI 3.1 takes it. */
export type Schema = Readonly<Record<string, unknown>>;

/** Schemas by the names that others refer to them by: `ref('Payment')`. */
export type Schemas = Readonly<Record<string, Schema>>;

export const text: Schema = { type: 'string' };
export const flag: Schema = { type: 'boolean' };
export const figure: Schema = { type: 'number' };
export const whole: Schema = { type: 'integer' };
export const time: Schema = { type: 'string', format: 'date-time' };
export const uuid: Schema = { type: 'string', format: 'uuid' };
export const minorUnits: Schema = { type: 'integer', description: 'minor units of the currency' };

/** Where a list goes on, in its answer. */
export const next: Schema = {
  type: 'string',
  description: 'where the next page begins: send it as `after`',
};

/** The same, or null. Of what is referred to: {@link refOrNull}. */
export function orNull({ type, ...schema }: Schema): Schema {
  return { ...schema, type: [type, 'null'] };
}

export function listOf(items: Schema): Schema {
  return { type: 'array', items };
}

export function ref(name: string): Schema {
  return { $ref: `#/components/schemas/${name}` };
}

export function refOrNull(name: string): Schema {
  return { anyOf: [ref(name), { type: 'null' }] };
}

/** An object whose names are not known here, such as those of an audit's checks. */
export function byName(schema: Schema): Schema {
  return { type: 'object', additionalProperties: schema };
}

/** An object of these fields and no others. */
export function object(
  properties: Readonly<Record<string, Schema>>,
  optional: readonly string[] = [],
): Schema {
  const required = Object.keys(properties).filter((name) => !optional.includes(name));
  return { type: 'object', required, properties, additionalProperties: false };
}

/**
 * The JSON of a type: what its reader gives and nobody describes does not compile. JSON has no
 * `undefined`, so what may be that is `optional`.
 */
export function shapeOf<Value>(
  properties: Readonly<Record<keyof Value & string, Schema>>,
  optional: readonly (keyof Value & string)[] = [],
): Schema {
  return object(properties, optional);
}
