import { parse } from 'qs';
import type { Metadata } from '../records.ts';
import { invalidRequest, type Answer } from './errors.ts';

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

/** A parameter as Stripe's bracket syntax can write it. */
export type ParamValue = string | readonly ParamValue[] | { readonly [name: string]: ParamValue };
export type Params = Readonly<Record<string, ParamValue>>;

const limits = {
  // Deeper and longer than anything the API has; beyond it the request is refused, not cut off.
  depth: 8,
  strictDepth: true,
  parameterLimit: 1_000,
  arrayLimit: 100,
  throwOnLimitExceeded: true,
  // A key such as metadata[toString] is data like any other.
  plainObjects: true,
} as const;

/**
 * Parses a form body or a query string: `metadata[order]=1&expand[]=latest_charge`.
 * Undefined when it is nothing that any request of the API needs.
 */
export function parseParams(text: string): Params | undefined {
  // The parser leaves this one name out silently, and nothing is to be ignored here.
  const names = [...new URLSearchParams(text).keys()];
  if (names.some((name) => name.includes('__proto__'))) return undefined;
  try {
    return parse(text, limits) as Params;
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** A text of at most so many characters. */
export function text(max = 5_000): Param<string> {
  return {
    read(value, param) {
      if (typeof value !== 'string') return refuse(invalidRequest('Invalid string', { param }));
      if (value.length <= max) return took(value);
      const message = `Invalid string: must be at most ${max} characters`;
      return refuse(invalidRequest(message, { code: 'parameter_invalid_string_too_long', param }));
    },
  };
}

/** A whole number within limits, both included. */
export function integer(limits: { min: number; max: number }): Param<number> {
  return {
    read(value, param) {
      const about = { code: 'parameter_invalid_integer', param };
      const shown = typeof value === 'string' ? value : JSON.stringify(value);
      if (typeof value !== 'string' || !/^-?\d{1,15}$/.test(value)) {
        return refuse(invalidRequest(`Invalid integer: ${shown}`, about));
      }
      const number = Number(value);
      if (number < limits.min || number > limits.max) {
        const message = `This value must be from ${limits.min} to ${limits.max}.`;
        return refuse(invalidRequest(message, about));
      }
      return took(number);
    },
  };
}

/**
 * A URL of any scheme: an app comes back to its own (`url_invalid`,
 * https://docs.stripe.com/error-codes).
 */
export const url: Param<string> = {
  read(value, param) {
    if (typeof value === 'string' && URL.canParse(value)) return took(value);
    return refuse(invalidRequest('Not a valid URL', { code: 'url_invalid', param }));
  },
};

/** One of a few values. */
export function oneOf<const Value extends string>(values: readonly Value[]): Param<Value> {
  return {
    read(value, param) {
      const known = values.find((each) => each === value);
      if (known !== undefined) return took(known);
      return refuse(
        invalidRequest(`Invalid ${param}: must be one of ${values.join(', ')}`, { param }),
      );
    },
  };
}

/** `true` or `false`. */
export const flag: Param<boolean> = {
  read(value, param) {
    if (value === 'true' || value === 'false') return took(value === 'true');
    return refuse(invalidRequest('Invalid boolean', { param }));
  },
};

/** A list of texts, written `name[]=a` or `name[0]=a`. */
export const texts: Param<readonly string[]> = {
  read(value, param) {
    const list = Array.isArray(value) ? (value as readonly ParamValue[]) : undefined;
    if (list?.every((each) => typeof each === 'string')) return took(list);
    return refuse(invalidRequest('Invalid array', { param }));
  },
};

/** Up to 50 keys of 40 characters, values of 500: https://docs.stripe.com/metadata */
export const metadata: Param<Metadata> = {
  read(value, param) {
    if (typeof value === 'string') return refuse(invalidRequest('Invalid object', { param }));
    const pairs = Object.entries(value as Params);
    if (pairs.length > 50) {
      return refuse(invalidRequest('Metadata can have up to 50 keys.', { param }));
    }
    for (const [key, each] of pairs) {
      const name = `${param}[${key}]`;
      if (typeof each !== 'string')
        return refuse(invalidRequest('Invalid string', { param: name }));
      if (key.length > 40 || each.length > 500) {
        const message = 'Metadata keys can have up to 40 characters and values up to 500.';
        return refuse(invalidRequest(message, { param: name }));
      }
    }
    return took(Object.fromEntries(pairs as [string, string][]));
  },
};

/** Parameters inside a parameter, read by a table of their own. */
export function nested<const Table extends ParamTable>(table: Table): Param<ValuesOf<Table>> {
  return {
    read(value, param): Read<ValuesOf<Table>> {
      if (typeof value === 'string' || Array.isArray(value)) {
        return refuse(invalidRequest('Invalid object', { param }));
      }
      return readParams(value as Params, table);
    },
  };
}

/** What an object's metadata is after a request: an empty value removes its key. */
export function mergeMetadata(before: Metadata, wish: Metadata | undefined): Metadata {
  const pairs = Object.entries({ ...before, ...wish });
  return Object.fromEntries(pairs.filter(([, value]) => value !== ''));
}

/** Anything: for parameters that Stripe wants and that change nothing here (`mandate_data`). */
export const unread: Param<unknown> = { read: (value) => took(value) };
