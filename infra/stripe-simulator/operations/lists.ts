import { seconds } from '../render/payment-intents.ts';
import { readExpand, renderExpanded, type Renderable } from '../render/records.ts';
import type { Account, Table } from '../store/account.ts';
import { invalidRequest, resourceMissing } from '../wire/errors.ts';
import {
  integer,
  readParams,
  refuse,
  text,
  texts,
  took,
  type Param,
  type Params,
  type Read,
  type ValuesOf,
} from '../wire/params.ts';
import { ok, type Operation } from './operation.ts';

type Paging = ValuesOf<typeof listParams>;
type Filters = Readonly<Record<string, string | undefined>>;

/** A collection and its filters of its own, each an exact text. */
type Collection<Row extends Renderable> = {
  readonly name: string;
  readonly kind: Row['kind'];
  readonly filters: readonly string[];
  table(account: Account): Table<Row>;
  keeps(row: Row, filters: Filters): boolean;
};

/**
 * `GET /v1/<collection>`, newest first, without delay: unlike the search, lists "aren't subject to
 * the availability delay" (https://docs.stripe.com/search#data-freshness).
 */
function list<Row extends Renderable>(collection: Collection<Row>): Operation {
  const own = Object.fromEntries(collection.filters.map((name) => [name, text()]));
  const filterTable: Readonly<Record<string, Param<string>>> = own;
  return {
    name: `${collection.name}.list`,
    method: 'GET',
    path: `/v1/${collection.name}`,
    prepare({ account }, call) {
      const read = readParams(call.params, { ...listParams, ...filterTable });
      if (read.outcome === 'refused') return read;
      const paging: Paging = read.value;
      const filters = read.value as unknown as Filters;
      const page = readPage(collection, account, { paging, filters });
      if (page.outcome === 'refused') return page;
      const expand = readExpand(collection.kind, paging.expand, 'data.');
      if (expand.outcome === 'refused') return expand;
      const { rows, more } = page.value;
      const url = `/v1/${collection.name}`;
      const answer = () => {
        const data = rows.map((row) => renderExpanded(account, row, expand.value));
        return ok({ object: 'list', url, has_more: more, data });
      };
      return { outcome: 'ready', run: () => ({ answer }) };
    },
  };
}

function readPage<Row extends Renderable>(
  collection: Collection<Row>,
  account: Account,
  { paging, filters }: { paging: Paging; filters: Filters },
): Read<{ rows: Row[]; more: boolean }> {
  const table = collection.table(account);
  const { starting_after: after, ending_before: before, limit = 10 } = paging;
  if (after !== undefined && before !== undefined) {
    const message = 'You can only specify one of these parameters: starting_after, ending_before.';
    return refuse(invalidRequest(message, { param: 'starting_after' }));
  }
  const cursor = after ?? before;
  if (cursor !== undefined && table.get(cursor) === undefined) {
    const param = after === undefined ? 'ending_before' : 'starting_after';
    return refuse(resourceMissing({ kind: collection.kind, id: cursor, param }));
  }
  const found: Row[] = [];
  for (const row of candidates(table, after, before)) {
    if (!isWithin(row, paging) || !collection.keeps(row, filters)) continue;
    found.push(row);
    if (found.length > limit) break;
  }
  const rows = found.slice(0, limit);
  return took({ rows: before === undefined ? rows : rows.reverse(), more: found.length > limit });
}

function candidates<Row extends Renderable>(
  table: Table<Row>,
  after: string | undefined,
  before: string | undefined,
): Iterable<Row> {
  if (after !== undefined) return table.olderThan(after);
  return before === undefined ? table.newestFirst() : table.newerThan(before);
}

function isWithin(row: Renderable, { created }: Paging): boolean {
  const at = seconds(row.created);
  return created === undefined || (at >= created.from && at <= created.to);
}

function same(wanted: string | undefined, value: string): boolean {
  return wanted === undefined || wanted === value;
}

/**
 * What can be listed. The caller has to filter intents itself: the API has no filter by metadata.
 */
export const lists: readonly Operation[] = [
  list({
    name: 'payment_intents',
    kind: 'payment_intent',
    filters: [],
    table: (account) => account.paymentIntents,
    keeps: () => true,
  }),
  list({
    name: 'charges',
    kind: 'charge',
    filters: ['payment_intent'],
    table: (account) => account.charges,
    keeps: (row, filters) => same(filters['payment_intent'], row.paymentIntent),
  }),
  list({
    name: 'refunds',
    kind: 'refund',
    filters: ['payment_intent', 'charge'],
    table: (account) => account.refunds,
    keeps: (row, filters) =>
      same(filters['payment_intent'], row.paymentIntent) && same(filters['charge'], row.charge),
  }),
  list({
    name: 'disputes',
    kind: 'dispute',
    filters: ['payment_intent', 'charge'],
    table: (account) => account.disputes,
    keeps: (row, filters) =>
      same(filters['payment_intent'], row.paymentIntent) && same(filters['charge'], row.charge),
  }),
  list({
    name: 'balance_transactions',
    kind: 'balance_transaction',
    filters: ['type', 'source'],
    table: (account) => account.balanceTransactions,
    keeps: (row, filters) => same(filters['type'], row.type) && same(filters['source'], row.source),
  }),
  list({
    name: 'events',
    kind: 'event',
    filters: ['type'],
    table: (account) => account.events,
    keeps: (row, filters) => same(filters['type'], row.type),
  }),
];

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
const listParams = {
  limit: integer({ min: 1, max: 100 }),
  starting_after: text(),
  ending_before: text(),
  created: range,
  expand: texts,
} as const;

// A browser retrieves an intent with its client secret; with a secret key it is allowed and
// unneeded.
const params = { expand: texts, client_secret: text() };

/**
 * `GET /v1/<collection>/:id`, as https://docs.stripe.com/api/payment_intents/retrieve and the like.
 */
function retrieve(
  collection: string,
  kind: Renderable['kind'],
  find: (account: Account, id: string) => Renderable | undefined,
): Operation {
  return {
    name: `${collection}.retrieve`,
    method: 'GET',
    path: `/v1/${collection}/:id`,
    prepare({ account }, call) {
      const read = readParams(call.params, params);
      if (read.outcome === 'refused') return read;
      const record = find(account, call.id);
      if (record === undefined) return refuse(resourceMissing({ kind, id: call.id }));
      const expand = readExpand(kind, read.value.expand);
      if (expand.outcome === 'refused') return expand;
      const run = () => ({ answer: () => ok(renderExpanded(account, record, expand.value)) });
      return { outcome: 'ready', run };
    },
  };
}

/** What can be read by its id. */
export const retrievals: readonly Operation[] = [
  retrieve('payment_intents', 'payment_intent', (account, id) => account.paymentIntents.get(id)),
  retrieve('charges', 'charge', (account, id) => account.charges.get(id)),
  retrieve('refunds', 'refund', (account, id) => account.refunds.get(id)),
  retrieve('disputes', 'dispute', (account, id) => account.disputes.get(id)),
  retrieve('balance_transactions', 'balance_transaction', (account, id) =>
    account.balanceTransactions.get(id),
  ),
  retrieve('payment_methods', 'payment_method', (account, id) => account.paymentMethods.get(id)),
  retrieve('events', 'event', (account, id) => account.events.get(id)),
];
