import { isSupportedCurrency } from '../records/currencies.ts';
import type { Metadata } from '../records/records.ts';
import type { ParamValue, Params } from './parse-params.ts';
import {
  readParams,
  refuse,
  took,
  type Param,
  type ParamTable,
  type Read,
  type ValuesOf,
} from './read-params.ts';
import { invalidRequest } from './stripe-error.ts';

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

/** One of a few words. */
export function oneOf<const Word extends string>(words: readonly Word[]): Param<Word> {
  return {
    read(value, param) {
      const word = words.find((each) => each === value);
      if (word !== undefined) return took(word);
      return refuse(
        invalidRequest(`Invalid ${param}: must be one of ${words.join(', ')}`, { param }),
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

/** Three letters in lower case, as Stripe demands: https://docs.stripe.com/currencies */
export const currency: Param<string> = {
  read(value, param) {
    if (typeof value === 'string' && isSupportedCurrency(value)) return took(value);
    const shown = typeof value === 'string' ? value : JSON.stringify(value);
    return refuse(invalidRequest(`Invalid currency: ${shown}`, { param }));
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
