import { createRequire } from 'node:module';
import type {
  Static,
  TArray,
  TArrayOptions,
  TBoolean,
  TInteger,
  TLiteral,
  TLiteralValue,
  TNull,
  TNumberOptions,
  TObject,
  TObjectOptions,
  TOptional,
  TProperties,
  TSchema,
  TSchemaOptions,
  TString,
  TStringOptions,
  TUnsafe,
} from 'typebox';
import type * as Schemas from 'typebox/schema';
import type { TLocalizedValidationError } from 'typebox/error';

export type { Static, TObject, TProperties, TSchema };

/*
 * JSON Schemas as plain data with the static types of TypeBox, and its validators. TypeBox's own
 * constructors make the same objects, from 680 modules that every process of the system would load
 * to start: half of what a command of an operator did before it could begin.
 */

const optionals = new WeakSet<TSchema>();

/** A schema is what JSON.stringify would write of it; its type is there for the compiler alone. */
const schema = <Schema extends TSchema>(fields: object): Schema => fields as Schema;

/** The constructors of the schemas that are used here; each gives what JSON Schema 2020-12 says. */
export const Type = {
  String: (options?: TStringOptions) => schema<TString>({ type: 'string', ...options }),
  /** Of 64 bits unless it says otherwise: without a word of it generated clients take 32. */
  Integer: (options?: TNumberOptions) =>
    schema<TInteger>({ type: 'integer', format: 'int64', ...options }),
  Boolean: (options?: TSchemaOptions) => schema<TBoolean>({ type: 'boolean', ...options }),
  Null: (options?: TSchemaOptions) => schema<TNull>({ type: 'null', ...options }),
  Literal: <const Value extends TLiteralValue>(value: Value, options?: TSchemaOptions) =>
    schema<TLiteral<Value>>({ type: typeof value, const: value, ...options }),
  Array: <Items extends TSchema>(items: Items, options?: TArrayOptions) =>
    schema<TArray<Items>>({ type: 'array', items, ...options }),
  /** Every property is required but those that are `Optional`. */
  Object: <Properties extends TProperties>(properties: Properties, options?: TObjectOptions) => {
    const required = Object.keys(properties).filter((name) => !optionals.has(properties[name]!));
    return schema<TObject<Properties>>({
      type: 'object',
      ...(required.length > 0 && { required }),
      properties,
      ...options,
    });
  },
  /** A property that may be absent. A copy of it that is spread into another schema is required. */
  Optional: <Schema extends TSchema>(of: Schema): TOptional<Schema> => {
    const optional = { ...of } as TOptional<Schema>;
    optionals.add(optional);
    return optional;
  },
  /** A schema that these constructors do not know, whose type is as said. */
  Unsafe: <Value>(fields: TSchema) => schema<TUnsafe<Value>>(fields),
};

/** Judges values by one schema. */
export type Validator<Schema extends TSchema> = {
  Check(value: unknown): value is Static<Schema>;
  /** Everything that is wrong; empty for what conforms. */
  Errors(value: unknown): TLocalizedValidationError[];
};

const require = createRequire(import.meta.url);

/** The validator of a schema, compiled when it is first asked or by {@link compileSchemas}. */
export function Compile<Schema extends TSchema>(of: Schema): Validator<Schema> {
  let compiled: Schemas.Validator | undefined;
  const validator = () => {
    compiled ??= (require('typebox/schema') as typeof Schemas).Compile(of);
    return compiled;
  };
  waiting.push(validator);
  return {
    Check: (value): value is Static<Schema> => validator().Check(value),
    Errors: (value) => validator().Errors(value)[1],
  };
}

let waiting: (() => unknown)[] = [];

/** Compiles what was only declared, for a service whose first request shall not pay for it. */
export function compileSchemas(): void {
  for (const validator of waiting) validator();
  waiting = [];
}
