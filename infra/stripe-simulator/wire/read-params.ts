import type { ParamValue, Params } from './parse-params.ts';
import { invalidRequest, type Answer } from './stripe-error.ts';

/**
 * The outcome of reading: a value, or the 400 to answer with. Refusals are never kept under a key.
 */
export type Read<Value> =
  | { readonly outcome: 'read'; readonly value: Value }
  | { readonly outcome: 'refused'; readonly answer: Answer };

/** How a parameter becomes a value. */
export type Param<Value> = { readonly read: (value: ParamValue, name: string) => Read<Value> };
/** One that must be there. */
export type Required<Value> = Param<Value> & { readonly required: true };

export type ParamTable = Readonly<Record<string, Param<unknown>>>;
export type ValuesOf<Table extends ParamTable> = {
  readonly [Name in keyof Table]: Table[Name] extends Required<infer Value>
    ? Value
    : Table[Name] extends Param<infer Value>
      ? Value | undefined
      : never;
};

/** Marks a parameter as one that cannot be left out. */
export function required<Value>(param: Param<Value>): Required<Value> {
  return { ...param, required: true };
}

/**
 * Reads all parameters of an operation and refuses what it does not know, so that nothing is
 * ignored silently. Codes: https://docs.stripe.com/error-codes (parameter_missing,
 * parameter_unknown, …).
 */
export function readParams<const Table extends ParamTable>(
  params: Params,
  table: Table,
): Read<ValuesOf<Table>> {
  const values: Record<string, unknown> = {};
  const unknown = Object.keys(params).find((name) => !Object.hasOwn(table, name));
  if (unknown !== undefined) return refuse(unknownParameter(unknown));
  for (const [name, param] of Object.entries(table)) {
    const value = params[name];
    if (value === undefined) {
      if ('required' in param) return refuse(missingParameter(name));
      continue;
    }
    if (value === '' && 'required' in param) return refuse(emptyParameter(name));
    // "" is how the API unsets a value; here that is the same as leaving it out.
    if (value === '') continue;
    const read = param.read(value, name);
    if (read.outcome === 'refused') return read;
    values[name] = read.value;
  }
  return { outcome: 'read', value: values as ValuesOf<Table> };
}

/** The value, read. */
export function took<Value>(value: Value): Read<Value> {
  return { outcome: 'read', value };
}

/** The 400 instead of a value. */
export function refuse(answer: Answer): { outcome: 'refused'; answer: Answer } {
  return { outcome: 'refused', answer };
}

function unknownParameter(param: string): Answer {
  const message = `Received unknown parameter: ${param}`;
  return invalidRequest(message, { code: 'parameter_unknown', param });
}

function missingParameter(param: string): Answer {
  return invalidRequest(`Missing required param: ${param}.`, { code: 'parameter_missing', param });
}

function emptyParameter(param: string): Answer {
  const message =
    `You passed an empty string for '${param}'. We assume empty values are an attempt to unset a ` +
    `parameter; however '${param}' cannot be unset.`;
  return invalidRequest(message, { code: 'parameter_invalid_empty', param });
}
