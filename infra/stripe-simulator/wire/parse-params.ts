import { parse } from 'qs';

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
  // The parser leaves this one name out without a word, and nothing is to be ignored here.
  const names = [...new URLSearchParams(text).keys()];
  if (names.some((name) => name.includes('__proto__'))) return undefined;
  try {
    return parse(text, limits) as Params;
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}
