import { integer, text, texts } from '../wire/param-kinds.ts';
import type { Params } from '../wire/parse-params.ts';
import { readParams, refuse, took, type Param } from '../wire/read-params.ts';
import { invalidRequest } from '../wire/stripe-error.ts';

/** Seconds since 1970; a missing end is open. */
export type Range = { readonly from: number; readonly to: number };

const second = integer({ min: 0, max: 99_999_999_999 });
const ends = { gt: second, gte: second, lt: second, lte: second };

/** `created=1700000000` or `created[gte]=…&created[lt]=…`. */
export const range: Param<Range> = {
  read(value, param) {
    if (typeof value === 'string') {
      const exact = second.read(value, param);
      return exact.outcome === 'refused' ? exact : took({ from: exact.value, to: exact.value });
    }
    if (Array.isArray(value)) return refuse(invalidRequest('Invalid object', { param }));
    const read = readParams(value as Params, ends);
    if (read.outcome === 'refused') return read;
    const { gt, gte, lt, lte } = read.value;
    const from = Math.max(gt === undefined ? 0 : gt + 1, gte ?? 0);
    const to = Math.min(lt === undefined ? Infinity : lt - 1, lte ?? Infinity);
    return took({ from, to });
  },
};

/** https://docs.stripe.com/api/pagination: 1 to 100 at once, 10 by default. */
export const listParams = {
  limit: integer({ min: 1, max: 100 }),
  starting_after: text(),
  ending_before: text(),
  created: range,
  expand: texts,
} as const;
