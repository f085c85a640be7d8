import type { PaymentIntentRecord } from '../records.ts';
import { seconds } from '../render/payment-intents.ts';
import type { Account } from '../store/account.ts';
import { invalidRequest } from '../wire/errors.ts';
import {
  integer,
  readParams,
  refuse,
  required,
  text,
  texts,
  took,
  type Read,
} from '../wire/params.ts';
import { readExpand, renderExpanded } from '../render/records.ts';
import { ok, type Operation } from './operation.ts';

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
  prepare(world, call) {
    const read = readParams(call.params, params);
    if (read.outcome === 'refused') return read;
    const { query: text, limit = 10, page: from = 0 } = read.value;
    const query = readQuery(text);
    if (query.outcome === 'refused') return query;
    const expand = readExpand('payment_intent', read.value.expand, 'data.');
    if (expand.outcome === 'refused') return expand;
    const asOf = world.now() - world.searchLagMs();
    const answer = () => {
      const found = search(world.account, query.value, asOf);
      const rows = found.slice(from, from + limit);
      const more = found.length > from + limit;
      const data = rows.map((row) => renderExpanded(world.account, row, expand.value));
      const next_page = more ? String(from + limit) : null;
      return ok({ object: 'search_result', url, has_more: more, next_page, data });
    };
    return { outcome: 'ready', run: () => ({ answer }) };
  },
};

/** https://docs.stripe.com/search#query-fields-for-payment-intents */
const fields = ['amount', 'created', 'currency', 'metadata', 'status'];

function readQuery(text: string): Read<SearchQuery> {
  const query = parseSearchQuery(text);
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

/** One condition of a search, as https://docs.stripe.com/search#search-query-language writes it. */
export type Condition = {
  readonly negated: boolean;
  /** `amount`, or `metadata` with its key. */
  readonly field: string;
  readonly key?: string;
  readonly operator: ':' | '~' | '>' | '<' | '>=' | '<=';
  /** Null asks whether the field is there at all. */
  readonly value: string | null;
};

export type SearchQuery = {
  readonly joined: 'and' | 'or';
  readonly conditions: readonly Condition[];
};

// -metadata['order']:'6735' | amount>=1000 | description~"coffee" | metadata["a"]:null
const clause =
  /^(-?)([a-z_]+)(?:\[(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\])?(:|~|>=|<=|>|<)(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|(null|-?\d+))(?=\s|$)/i;
const joint = /^\s+(?:(and|or)\s+)?/i;

/**
 * Undefined when the text is no query. "You can't combine AND and OR"; nothing between means AND.
 */
function parseSearchQuery(text: string): SearchQuery | undefined {
  const conditions: Condition[] = [];
  const joints = new Set<string>();
  let rest = text.trim();
  for (;;) {
    const found = clause.exec(rest);
    if (found === null) return undefined;
    conditions.push(toCondition(found));
    rest = rest.slice(found[0].length);
    if (rest === '') break;
    const between = joint.exec(rest);
    if (between === null) return undefined;
    joints.add((between[1] ?? 'and').toLowerCase());
    rest = rest.slice(between[0].length);
  }
  if (joints.size > 1) return undefined;
  return { joined: joints.has('or') ? 'or' : 'and', conditions };
}

function toCondition(found: RegExpExecArray): Condition {
  const [, minus, field, keyOne, keyTwo, operator, one, two, bare] = found;
  const key = keyOne ?? keyTwo;
  const quoted = one ?? two;
  const value = quoted === undefined ? bare! : unescape(quoted);
  return {
    negated: minus === '-',
    field: field!.toLowerCase(),
    ...(key !== undefined && { key: unescape(key) }),
    operator: operator as Condition['operator'],
    value: quoted === undefined && value.toLowerCase() === 'null' ? null : value,
  };
}

function unescape(quoted: string): string {
  return quoted.replaceAll(/\\(.)/g, '$1');
}
