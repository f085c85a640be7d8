import { createHash } from 'node:crypto';
import { parseIdempotencyKey } from '@triplock/contracts';
import {
  deriveTxnId,
  isTxnId,
  transactionKinds,
  type PartnerId,
  type PaymentStatus,
} from '@triplock/payments';
import { loadStatements, type Queryable } from '@triplock/postgres';
import { Refusal } from '../console.ts';
import { maskedTexts } from './payment.ts';
import * as json from '../edge/schema.ts';

const sql = loadStatements(import.meta.url, 'payments.sql', [
  'listAll',
  'listOfPartner',
  'partners',
  'byIds',
  'byEvent',
  'byProviderId',
  'byReference',
]);

const listedPayment = json.component('ListedPayment', {
  id: json.uuid,
  partner: json.text,
  key: json.text,
  amount: json.minorUnits,
  currency: json.text,
  state: json.text,
  authorized: json.flag,
  method: json.orNull(json.text),
  reference: json.orNull(json.text),
  createdAt: json.time,
  settledAt: json.orNull(json.time),
  refunded: json.minorUnits,
});
/** One payment of the list. */
export type ListedPayment = json.ValueOf<typeof listedPayment>;

/** What is wished for of the list; everything may be left out. */
export type PaymentFilter = {
  partner?: string;
  status?: PaymentStatus;
  from?: Date;
  until?: Date;
  /** The last three go with a partner, whose payments are then looked through. */
  reference?: string;
  currency?: string;
  /** Minor units of the currency, both included. */
  amount?: { least?: bigint; greatest?: bigint };
};

/** As programs get it. */
export const paymentPage = json.component('PaymentPage', {
  payments: json.listOf(listedPayment),
  /** Nothing at the end. */
  next: json.optional(json.next),
  /**
   * Of a search by amount that has no end yet: how far back it has looked. What is older is
   * behind `next`.
   */
  lookedUntil: json.optional(json.time),
});
/** One page of the list. */
export type PaymentPage = json.ValueOf<typeof paymentPage>;

const pageSize = 50;
/** So many are looked through for an amount before somebody has to ask for more: some 50 ms. */
const lookedMax = 10_000;

/**
 * One page of payments, newest first.
 *
 * @throws Refusal for a cursor of another list, or one that is none.
 */
export async function listPayments(
  database: Queryable,
  filter: PaymentFilter,
  { cursor, size = pageSize }: { cursor?: string; size?: number } = {},
): Promise<PaymentPage> {
  const after = cursor === undefined ? undefined : positionIn(cursor, filter);
  const wishes = [size + 1, after?.at ?? null, after?.id ?? null, ...common(filter)];
  if (filter.partner === undefined) {
    const rows = await database.query<ListedPayment>(sql.listAll, wishes);
    return pageOf(filter, rows, size);
  }
  const { partner, reference = null, currency = null, amount } = filter;
  const looksThrough = currency !== null || amount !== undefined;
  const lookAt = looksThrough ? lookedMax : size + 1;
  const rows = await database.query<LookedRow>(sql.listOfPartner, [
    ...wishes,
    partner,
    reference,
    currency,
    amount?.least ?? null,
    amount?.greatest ?? null,
    lookAt,
  ]);
  const page = pageOf(filter, rows.filter((row) => row.id !== null).map(paymentIn), size);
  const [row] = rows;
  if (!looksThrough || row === undefined || page.next !== undefined) return page;
  if (Number(row.looked) < lookAt) return page;
  return { ...page, next: cursorAt(filter, row.until, row.untilId), lookedUntil: row.until };
}

type LookedRow = ListedPayment & { looked: bigint; until: Date; untilId: string };

/** Without how far was looked for it. */
function paymentIn({ looked: _, until: __, untilId: ___, ...payment }: LookedRow): ListedPayment {
  return payment;
}

function common({ status, from, until }: PaymentFilter) {
  const state = status === 'authorized' ? 'pending' : (status ?? null);
  const isAuthorized = state === 'pending' ? status === 'authorized' : null;
  return [state, isAuthorized, from?.toISOString() ?? null, until?.toISOString() ?? null];
}

function pageOf(filter: PaymentFilter, rows: ListedPayment[], size: number): PaymentPage {
  const payments = rows.slice(0, size).map(maskedTexts);
  const last = payments.at(-1);
  if (rows.length <= size || last === undefined) return { payments };
  return { payments, next: cursorAt(filter, last.createdAt, last.id) };
}

/** A position, bound to its list: behind another filter it would skip what it never showed. */
function cursorAt(filter: PaymentFilter, at: Date, id: string): string {
  const text = [at.getTime(), id, digestOf(filter)].join(' ');
  return Buffer.from(text).toString('base64url');
}

function positionIn(cursor: string, filter: PaymentFilter): { at: string; id: string } {
  const text = Buffer.from(cursor, 'base64url').toString();
  const [, ms, id = '', digest] = /^(\d{1,15}) (\S{36}) (\S{16})$/.exec(text) ?? [];
  if (!isTxnId(id)) throw new Refusal('invalid_request', 'This is no place in this list.');
  if (digest !== digestOf(filter)) {
    throw new Refusal(
      'invalid_request',
      'This place is one of another list: start at its first page.',
    );
  }
  return { at: new Date(Number(ms)).toISOString(), id };
}

function digestOf({ partner, status, from, until, reference, currency, amount }: PaymentFilter) {
  const wishes = [partner, status, from, until, reference, currency];
  const all = [...wishes, amount?.least?.toString(), amount?.greatest?.toString()];
  return createHash('sha256').update(JSON.stringify(all)).digest('base64url').slice(0, 16);
}

/** Every payment of a list, page by page, up to a limit. `more`: the list had not ended by then. */
export async function* allPayments(
  database: Queryable,
  filter: PaymentFilter,
  max: number,
): AsyncGenerator<ListedPayment[], { more: boolean }> {
  let [cursor, given]: [string | undefined, number] = [undefined, 0];
  do {
    const at = cursor === undefined ? {} : { cursor };
    const page: PaymentPage = await listPayments(database, filter, { ...at, size: 1_000 });
    yield page.payments;
    given += page.payments.length;
    cursor = page.next;
  } while (cursor !== undefined && given < max);
  return { more: cursor !== undefined };
}

/** The names of all partners. */
export async function listPartners(database: Queryable): Promise<string[]> {
  const rows = await database.query<{ id: string }>(sql.partners);
  return rows.map(({ id }) => id);
}

/** As programs get it. */
export const foundTransaction = json.component('FoundTransaction', {
  id: json.uuid,
  kind: json.text,
  partner: json.text,
  amount: json.orNull(json.minorUnits),
  currency: json.orNull(json.text),
  state: json.text,
  createdAt: json.time,
});
/** A payment, refund, capture or cancellation that a search found. */
export type FoundTransaction = json.ValueOf<typeof foundTransaction>;

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/i;
const providerId = /^[a-z]{2,6}_[A-Za-z0-9_-]{1,250}$/;
const foundMax = 50;

/**
 * Transactions by whatever a person has of them: an id, an event's or a webhook's, the provider's,
 * an idempotency key with or without its partner, a reference. 50 at most.
 */
export async function findTransactions(
  database: Queryable,
  { words, partner }: { words: string; partner?: string },
): Promise<FoundTransaction[]> {
  const asked = words.trim();
  // A text that PostgreSQL cannot hold is nobody's.
  if (asked === '' || asked.length > 300 || /\p{Cc}/u.test(asked)) return [];
  const ids = async (statement: string, ...values: unknown[]) => {
    const rows = await database.query<{ id: string }>(statement, values);
    return rows.map(({ id }) => id);
  };
  const [id] = uuid.exec(asked) ?? [];
  const nothing = Promise.resolve<string[]>([]);
  const named = await Promise.all([
    id === undefined ? nothing : ids(sql.byEvent, id),
    providerId.test(asked) ? ids(sql.byProviderId, asked) : nothing,
    idsOfKey(database, asked, partner),
    ids(sql.byReference, asked, foundMax),
  ]);
  const all = [...new Set([...(id === undefined ? [] : [id.toLowerCase()]), ...named.flat()])];
  if (all.length === 0) return [];
  const found = await database.query<FoundTransaction>(sql.byIds, [all]);
  const newestFirst = found.sort((one, other) => +other.createdAt - +one.createdAt);
  const mine = newestFirst.filter((each) => partner === undefined || each.partner === partner);
  return mine.slice(0, foundMax);
}

/** What ids a key has, of a partner or of any: an id is made from both, so no index is needed. */
async function idsOfKey(database: Queryable, asked: string, partner?: string): Promise<string[]> {
  const key = parseIdempotencyKey([asked]);
  if (key.outcome !== 'key') return [];
  const partners = partner === undefined ? await listPartners(database) : [partner];
  return partners.flatMap((each) =>
    transactionKinds.map((kind) => deriveTxnId(kind, each as PartnerId, key.key)),
  );
}
