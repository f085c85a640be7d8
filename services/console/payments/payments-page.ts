import { paymentStatuses } from '@triplock/contracts';
import { minorDigits, formatDecimal, parseDecimal } from '@triplock/payments';
import { Refusal, type Answer, type Console, type Route, type Visit } from '../console.ts';
import { after, ofPartner, page, reading } from '../edge/route.ts';
import * as json from '../edge/schema.ts';
import { csvRow } from '../html/csv.ts';
import { html, type Html, type Shown } from '../html/html.ts';
import { describeCopy } from './payment.ts';
import {
  allPayments,
  foundTransaction,
  paymentPage,
  findTransactions,
  listPartners,
  listPayments,
  type FoundTransaction,
  type ListedPayment,
  type PaymentFilter,
  type PaymentPage,
} from './payments.ts';
import { findHint } from '../html/layout.ts';
import { goesOn, id, money, select, state, table, time } from '../html/shown.ts';

const asksPayments = json.query({
  partner: ofPartner,
  status: json.choice(paymentStatuses, `one of ${paymentStatuses.join(', ')}`),
  from: json.sent('a time in UTC, such as 2026-11-20 or 2026-11-20T08:00Z: from then on'),
  until: json.sent('such a time too: before then'),
  reference: json.sent('the reference of a payment; goes with a partner'),
  currency: json.sent('a currency by ISO 4217; goes with a partner'),
  least: json.sent('an amount such as 12.50: at least so much; goes with a currency'),
  greatest: json.sent('an amount such as 12.50: at most so much; goes with a currency'),
  after,
});
type Asked = json.ValueOf<typeof asksPayments>;

const words = {
  q: json.sent('an id, key, reference, provider’s id or webhook-id'),
  partner: ofPartner,
};
const asksFind = json.query(words);
type FindVisit = Visit<json.ValueOf<typeof asksFind>>;

/** The pages of many payments, and the same for programs. */
export const paymentsRoutes: readonly Route[] = [
  page('/payments', showPayments, asksPayments),
  page('/payments.csv', downloadPayments, asksPayments),
  page('/payments/find', findPayment, asksFind),
  reading('/payments', {
    operationId: 'listPayments',
    summary: 'Payments, newest first.',
    asks: asksPayments,
    answers: paymentPage,
    read: ({ database }, { asked }) =>
      listPayments(database, filterOf(asked), { cursor: asked.after }),
  }),
  reading('/payments/find', {
    operationId: 'findPayments',
    summary: 'Payments and what follows them, by whatever one has of them; 50 at most.',
    asks: json.object({ ...words, partner: json.optional(ofPartner) }),
    answers: json.component('Found', { found: json.listOf(foundTransaction) }),
    read: async ({ database }, { asked }) => ({ found: await search(database, asked) }),
  }),
];

/** The list of payments by a filter, which its address keeps. */
async function showPayments(console: Console, { asked, query }: Visit<Asked>): Promise<Answer> {
  const { database } = console;
  const filter = filterOf(asked);
  const [partners, shown, copy] = await Promise.all([
    listPartners(database),
    listPayments(database, filter, { cursor: asked.after }),
    describeCopy(console),
  ]);
  const main = html`${copy && html`<p class="note">${copy}</p>`} ${filterForm(asked, partners)}
  ${paymentTable(shown)} ${onwards(shown, query)}`;
  return { is: 'page', title: 'Payments', section: 'payments', main };
}

/** As many as a spreadsheet holds without complaint; a longer list says at its end that it is. */
const fileRowsMax = 100_000;

/** The same list as a file. */
async function downloadPayments({ database }: Console, { asked }: Visit<Asked>): Promise<Answer> {
  const filter = filterOf(asked);
  const heads = ['id', 'partner', 'key', 'accepted', 'settled', 'state', 'amount', 'currency'];
  const pieces = async function* (): AsyncGenerator<string, void> {
    yield `${[...heads, 'refunded', 'method', 'reference'].join(',')}\r\n`;
    const pages = allPayments(database, filter, fileRowsMax);
    for (let page = await pages.next(); ; page = await pages.next()) {
      if (page.done) {
        if (page.value.more) {
          yield csvRow(['The list goes on: narrow the filter by time for the rest.']);
        }
        return;
      }
      yield page.value.map(csvRowOf).join('');
    }
  };
  return { is: 'file', name: 'payments.csv', type: 'text/csv; charset=utf-8', pieces: pieces() };
}

/** What a search finds: the one payment itself, or a list of those that may be meant. */
async function findPayment({ database }: Console, { asked: words }: FindVisit): Promise<Answer> {
  const found = await search(database, words);
  const [only] = found;
  if (only !== undefined && found.length === 1) {
    return { is: 'redirect', to: `/payments/${only.id}` };
  }
  const { q: asked } = words;
  const partners = await listPartners(database);
  const title = asked === undefined ? 'Find a payment' : `Found for “${asked}”`;
  const main = html`${findForm(words, partners)}
  ${
    asked === undefined
      ? html`<p class="empty">Give what you have of the payment in the field above.</p>`
      : table(title, ['Accepted', 'Kind', 'Partner', 'Id', 'Status', { figure: 'Amount' }], {
          rows: found.map(foundRow),
          empty:
            'Nothing has this as its id, idempotency key, reference, provider’s id or webhook-id. An id and a key are found for ever; a webhook-id for as long as its event is kept.',
        })
  }`;
  const status = asked !== undefined && found.length === 0 ? 404 : 200;
  return { is: 'page', title, section: 'payments', main, status };
}

function search(database: Console['database'], { q: words = '', partner }: FindVisit['asked']) {
  return findTransactions(database, { words, partner });
}

/** @throws Refusal that says what to write instead of what makes no filter. */
function filterOf({ partner, status, reference, currency, ...asked }: Asked): PaymentFilter {
  const refuse = (why: string) => new Refusal('invalid_request', why);
  if (currency !== undefined && minorDigits(currency) === undefined) {
    throw refuse(`“${currency}” is no currency: write it as EUR.`);
  }
  const amountOf = (text: string | undefined) => {
    if (text === undefined) return undefined;
    if (currency === undefined) throw refuse('An amount goes with a currency: choose one.');
    const amount = parseDecimal(text, currency);
    if (amount !== undefined) return amount;
    throw refuse(`“${text}” is no amount of this currency: write it as 12.50.`);
  };
  const [least, greatest] = [amountOf(asked.least), amountOf(asked.greatest)];
  if (partner === undefined && (reference ?? currency) !== undefined) {
    throw refuse('Reference, currency and amount go with a partner: choose one.');
  }
  const [from, until] = [momentOf(asked.from), momentOf(asked.until)];
  const amount = least === undefined && greatest === undefined ? undefined : { least, greatest };
  return { partner, status, from, until, reference, currency, amount };
}

const momentForm = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,3})?)?Z?)?$/;

/** What a browser's field for a time gives has no zone, and means UTC here. */
function momentOf(text: string | undefined): Date | undefined {
  if (text === undefined) return undefined;
  const at = new Date(text.length > 10 && !text.endsWith('Z') ? `${text}Z` : text);
  if (momentForm.test(text) && !Number.isNaN(at.getTime())) return at;
  throw new Refusal(
    'invalid_request',
    `“${text}” is no time: write it as 2026-11-20 or 2026-11-20T08:00.`,
  );
}

function filterForm(asked: Asked, partners: readonly string[]): Html {
  const of = (name: keyof Asked) => asked[name] ?? '';
  const input = (name: keyof Asked, label: string, type: 'text' | 'datetime-local') =>
    html`<label
      >${label}<input
        class="${type === 'text' && 'short'}"
        type="${type}"
        name="${name}"
        value="${of(name)}"
        maxlength="255"
    /></label>`;
  const picked = Object.keys(asked).length > 0;
  return html`<form class="filter" action="/payments" aria-label="Filter">
    ${select('partner', 'Partner', { values: partners, chosen: of('partner') })}
    ${select('status', 'Status', { values: paymentStatuses, chosen: of('status') })}
    ${input('from', 'From (UTC)', 'datetime-local')}
    ${input('until', 'Until (UTC)', 'datetime-local')} ${input('reference', 'Reference', 'text')}
    ${input('currency', 'Currency', 'text')} ${input('least', 'At least', 'text')}
    ${input('greatest', 'At most', 'text')}
    <div class="actions">
      <button>Show</button>
      ${picked && html`<a class="button quiet" href="/payments">Clear</a>`}
    </div>
  </form>`;
}

function findForm({ q, partner }: FindVisit['asked'], partners: readonly string[]): Html {
  return html`<form class="filter" action="/payments/find" aria-label="Find a payment">
    <label>${findHint}<input name="q" value="${q}" maxlength="300" size="40" /></label>
    ${select('partner', 'Partner', { values: partners, chosen: partner ?? '' })}
    <button>Find</button>
  </form>`;
}

function paymentTable({ payments }: PaymentPage): Html {
  const rows = payments.map((each): Shown[] => [
    time(each.createdAt),
    each.partner,
    html`<a href="/payments/${each.id}">${id(each.key)}</a>`,
    each.reference,
    state(statusOf(each)),
    money(each.amount, each.currency),
  ]);
  return table(
    'Payments',
    ['Accepted', 'Partner', 'Payment', 'Reference', 'Status', { figure: 'Amount' }],
    { rows, empty: 'No payment fits. Clear the filter, or look at another time.' },
  );
}

/** What a partner calls the state of one whose money is held. */
function statusOf({ state: name, authorized }: ListedPayment): string {
  return name === 'pending' && authorized ? 'authorized' : name;
}

function onwards({ next, lookedUntil }: PaymentPage, query: URLSearchParams): Html {
  const here = new URLSearchParams(query);
  for (const name of new Set(query.keys()))
    if (name === 'after' || !query.get(name)) here.delete(name);
  const label = lookedUntil ? 'Look further back' : 'Older payments';
  return html`${
      lookedUntil &&
      html`<p class="note below">
        Looked through the 10 000 newest that the rest of the filter fits, back to
        ${time(lookedUntil)}.
      </p>`
    }
    <p class="actions below">
      ${next !== undefined && goesOn('/payments', label, { query: here, place: { after: next } })}
      <a class="button quiet" href="/payments.csv?${here.toString()}" download>Download as CSV</a>
    </p>`;
}

function foundRow(each: FoundTransaction): Shown[] {
  return [
    time(each.createdAt),
    each.kind,
    each.partner,
    html`<a href="/payments/${each.id}">${id(each.id)}</a>`,
    state(each.state),
    each.amount !== null && each.currency !== null && money(each.amount, each.currency),
  ];
}

function csvRowOf(each: ListedPayment): string {
  const { currency, settledAt } = each;
  return csvRow([
    each.id,
    each.partner,
    each.key,
    each.createdAt.toISOString(),
    settledAt?.toISOString() ?? '',
    statusOf(each),
    formatDecimal(each.amount, currency),
    currency,
    formatDecimal(each.refunded, currency),
    each.method ?? '',
    each.reference ?? '',
  ]);
}
