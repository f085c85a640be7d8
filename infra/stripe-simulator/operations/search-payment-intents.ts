import { seconds } from '../render/seconds.ts';
import type { PaymentIntentRecord } from '../records/records.ts';
import type { Account } from '../store/account.ts';
import { integer, text, texts } from '../wire/param-kinds.ts';
import { readParams, refuse, required, took, type Read } from '../wire/read-params.ts';
import { invalidRequest } from '../wire/stripe-error.ts';
import { readExpand, renderExpanded } from './expand-object.ts';
import { ok, type Operation } from './operation.ts';
import { parseSearchQuery, type Condition, type SearchQuery } from './parse-search-query.ts';

const params = {
  query: required(text()),
  limit: integer({ min: 1, max: 100 }),
  page: integer({ min: 0, max: 999_999_999 }),
  expand: texts,
};
const url = '/v1/payment_intents/search';

/**
 * https://docs.stripe.com/api/payment_intents/search: "Don't use search in read-after-write flows".
 * It answers from what the account was `searchLagMs` ago, so whoever does use it so is found out.
 */
export const searchPaymentIntents: Operation = {
  name: 'payment_intents.search',
  method: 'GET',
  path: url,
  prepare(desk, call) {
    const read = readParams(call.params, params);
    if (read.outcome === 'refused') return read;
    const { query: words, limit = 10, page: from = 0 } = read.value;
    const query = readQuery(words);
    if (query.outcome === 'refused') return query;
    const expand = readExpand('payment_intent', read.value.expand, 'data.');
    if (expand.outcome === 'refused') return expand;
    const asOf = desk.now() - desk.searchLagMs();
    const answer = () => {
      const found = search(desk.account, query.value, asOf);
      const rows = found.slice(from, from + limit);
      const more = found.length > from + limit;
      const data = rows.map((row) => renderExpanded(desk.account, row, expand.value));
      const next_page = more ? String(from + limit) : null;
      return ok({ object: 'search_result', url, has_more: more, next_page, data });
    };
    return { outcome: 'ready', run: () => ({ answer }) };
  },
};

/** https://docs.stripe.com/search#query-fields-for-payment-intents */
const fields = ['amount', 'created', 'currency', 'metadata', 'status'];

function readQuery(words: string): Read<SearchQuery> {
  const query = parseSearchQuery(words);
  const about = { param: 'query' };
  if (query === undefined)
    return refuse(invalidRequest('We were unable to parse your search query.', about));
  const stranger = query.conditions.find(({ field }) => !fields.includes(field));
  if (stranger === undefined) return took(query);
  return refuse(
    invalidRequest(`Field \`${stranger.field}\` is an unsupported search field.`, about),
  );
}

function search(account: Account, query: SearchQuery, asOf: number): PaymentIntentRecord[] {
  const found: PaymentIntentRecord[] = [];
  for (const { id } of account.paymentIntents.newestFirst()) {
    const seen = account.versionsOf(id).findLast(({ at }) => at <= asOf)?.record;
    if (seen !== undefined && matches(seen, query)) found.push(seen);
  }
  return found;
}

function matches(intent: PaymentIntentRecord, { joined, conditions }: SearchQuery): boolean {
  const holds = (condition: Condition) => meets(intent, condition) !== condition.negated;
  return joined === 'and' ? conditions.every(holds) : conditions.some(holds);
}

function meets(intent: PaymentIntentRecord, { field, key, operator, value }: Condition): boolean {
  const actual = valueOf(intent, field, key);
  if (value === null || actual === undefined) return value === null && actual === undefined;
  switch (operator) {
    case ':':
      return String(actual).toLowerCase() === value.toLowerCase();
    case '~':
      return String(actual).toLowerCase().includes(value.toLowerCase());
    case '>':
      return Number(actual) > Number(value);
    case '<':
      return Number(actual) < Number(value);
    case '>=':
      return Number(actual) >= Number(value);
    case '<=':
      return Number(actual) <= Number(value);
  }
}

function valueOf(intent: PaymentIntentRecord, field: string, key: string | undefined) {
  if (field === 'metadata') return key === undefined ? undefined : intent.metadata[key];
  if (field === 'created') return seconds(intent.created);
  return intent[field as 'amount' | 'currency' | 'status'];
}
