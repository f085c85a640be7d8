import { actForm, foldedForm } from '../acts/acts-pages.ts';
import {
  Refusal,
  type Answer,
  type Console,
  type Route,
  type Session,
  type Visit,
} from '../console.ts';
import { after, ofPartner, page, reading } from '../edge/route.ts';
import * as json from '../edge/schema.ts';
import { html, type Html, type Shown } from '../html/html.ts';
import {
  listedDelivery,
  listedEndpoint,
  listedSettlement,
  listDeliveries,
  listEndpoints,
  listSettlements,
  type ListedDelivery,
  type ListedEndpoint,
  type SettlementDays,
} from './listings.ts';
import { listPartners } from '../payments/payments.ts';
import { csvRow, select } from '../payments/payments-page.ts';
import { formatDecimal } from '@triplock/payments';
import { goesOn, id, money, number, state, table, time } from '../html/shown.ts';

const asksWebhooks = json.query({
  partner: ofPartner,
  // Those have an index of their own; no other state can be asked for.
  state: json.choice(['failed'], 'failed: those that were given up'),
  after,
});
type WebhooksVisit = Visit<json.ValueOf<typeof asksWebhooks>>;

const asksSettlements = json.query({
  partner: ofPartner,
  from: json.sent('a day such as 2026-11-20: from then on'),
  until: json.sent('a day such as 2026-11-20: until then, that day included'),
});
type SettlementsVisit = Visit<json.ValueOf<typeof asksSettlements>>;

/** The pages of webhooks and settlements, and the same for programs. */
export const listingRoutes: readonly Route[] = [
  page('/webhooks', showWebhooks, asksWebhooks),
  reading('/webhooks', {
    operationId: 'listWebhooks',
    summary: 'Webhooks, newest first, and the endpoints that they go to.',
    asks: asksWebhooks,
    answers: json.component('Webhooks', {
      deliveries: json.listOf(listedDelivery),
      next: json.optional(json.next),
      endpoints: json.listOf(listedEndpoint),
    }),
    read: readWebhooks,
  }),
  page('/settlements', showSettlements, asksSettlements),
  page('/settlements.csv', downloadSettlements, asksSettlements),
  reading('/settlements', {
    operationId: 'listSettlements',
    summary: 'What partners are owed by day and currency; the last week unless asked otherwise.',
    asks: asksSettlements,
    answers: json.component('Settlements', { settlements: json.listOf(listedSettlement) }),
    read: async (console, { asked }) => ({
      settlements: await listSettlements(console.database, daysIn(asked, console.now()), 1_000),
    }),
  }),
];

/** Every webhook, newest first, and where they go. */
async function showWebhooks(
  { database }: Console,
  { asked, query, session }: WebhooksVisit,
): Promise<Answer> {
  const { partner, state } = asked;
  const [partners, webhooks, endpoints] = await Promise.all([
    listPartners(database),
    listDeliveries(database, asked, asked.after),
    listEndpoints(database, partner),
  ]);
  const rows = webhooks.deliveries.map((each) => deliveryRow(each, session));
  const main = html`<form class="filter" action="/webhooks" aria-label="Filter">
      ${select('partner', 'Partner', { values: partners, chosen: partner ?? '' })}
      ${select('state', 'Status', { values: ['failed'], chosen: state ?? '' })}
      <button>Show</button>
    </form>
    ${table(
      'Webhooks',
      ['Made', 'Partner', 'Webhook-id', 'Event', 'State', 'Tries', 'Answer', 'When', 'Act'],
      { rows, empty: 'There is no such webhook.' },
    )}
    ${
      webhooks.next !== undefined &&
      html`<p class="below">
        ${goesOn('/webhooks', 'Older webhooks', { query, place: { after: webhooks.next } })}
      </p>`
    }
    ${partner !== undefined && redeliverWindow(session, partner)}
    <h2>Endpoints</h2>
    ${table('Endpoints', ['Partner', 'Address', 'State', 'Events', 'Made', 'Secret'], {
      rows: endpoints.map((each) => endpointRow(each, session)),
      empty: 'No endpoint: what is made for such a partner is parked until it sets one.',
    })}`;
  return { is: 'page', title: 'Webhooks', section: 'webhooks', main };
}

/** The form that gives back what was given up of a partner's, in a window of time or at all. */
function redeliverWindow(session: Session, partner: string): Html | undefined {
  const inputs = html`<label
      >Made from <input name="since" placeholder="2026-11-20T08:00:00Z"
    /></label>
    <label>and before <input name="until" placeholder="2026-11-20T08:00:00Z" /></label>`;
  const form = actForm(session, 'webhooks.redeliver-window', { fields: { partner }, inputs });
  return (
    form &&
    html`<h2>Given up of ${partner}</h2>
      ${form}`
  );
}

async function readWebhooks({ database }: Console, { asked }: WebhooksVisit) {
  const [webhooks, endpoints] = await Promise.all([
    listDeliveries(database, asked, asked.after),
    listEndpoints(database, asked.partner),
  ]);
  return { ...webhooks, endpoints };
}

function deliveryRow(each: ListedDelivery, session: Session): Shown[] {
  const fields = { partner: each.partner, id: each.id };
  const answer = each.lastStatus === null ? (each.lastOutcome ?? '') : `HTTP ${each.lastStatus}`;
  return [
    time(each.createdAt),
    each.partner,
    html`<a href="/payments/${each.about}">${id(each.id)}</a>`,
    each.type,
    state(each.state),
    number(each.attempts),
    answer,
    time(each.finishedAt ?? each.nextAttemptAt),
    foldedForm(session, 'webhooks.redeliver', { fields, summary: 'again' }),
  ];
}

function endpointRow(each: ListedEndpoint, session: Session): Shown[] {
  const now = each.disabledAt ? 'disabled' : each.verified ? 'open' : 'unverified';
  const until = each.secondSecretUntil;
  const early = html`<label class="check"
    ><input type="checkbox" name="again" value="yes" required /> End the older one now, although the
    partner may know no other</label
  >`;
  const rotation = foldedForm(session, 'partners.rotate-secret', {
    fields: { partner: each.partner, endpoint: each.id },
    ...(until && { inputs: early }),
  });
  return [
    each.partner,
    each.url,
    state(now),
    each.types?.join(', ') ?? 'all',
    time(each.madeAt),
    html`${until && html`two sign until ${time(until)}`} ${rotation}`,
  ];
}

const dayMs = 86_400_000;
/** As many as a page shows, and as a spreadsheet holds without complaint. */
const [shownMax, fileRowsMax] = [500, 100_000] as const;

/** What partners are owed, by day and currency. */
async function showSettlements(console: Console, { asked }: SettlementsVisit): Promise<Answer> {
  const days = daysIn(asked, console.now());
  const [partners, rows] = await Promise.all([
    listPartners(console.database),
    listSettlements(console.database, days, shownMax),
  ]);
  const shown = rows.map((each): Shown[] => [
    each.day,
    each.partner,
    number(each.payments),
    money(each.gross, each.currency),
    number(each.refundCount),
    money(each.refunds, each.currency),
    html`<b>${money(each.net, each.currency)}</b>`,
  ]);
  const here = new URLSearchParams(Object.entries({ partner: '', ...days }));
  const main = html`<form class="filter" action="/settlements" aria-label="Filter">
      ${select('partner', 'Partner', { values: partners, chosen: days.partner ?? '' })}
      <label>From<input type="date" name="from" value="${days.from}" /></label>
      <label>Until<input type="date" name="until" value="${days.until}" /></label>
      <button>Show</button>
    </form>
    ${table(
      'Settlements',
      [
        'Day (UTC)',
        'Partner',
        { figure: 'Payments' },
        { figure: 'Gross' },
        { figure: 'Refunds' },
        { figure: 'Given back' },
        { figure: 'Net' },
      ],
      { rows: shown, empty: 'Nothing was settled on these days.' },
    )}
    ${
      rows.length === shownMax &&
      html`<p class="note below">
        There is more: choose a partner or fewer days, or download the file.
      </p>`
    }
    <p class="below">
      <a class="button quiet" href="/settlements.csv?${here.toString()}" download>
        Download as CSV
      </a>
    </p>`;
  return { is: 'page', title: 'Settlements', section: 'settlements', main };
}

/** The same as a file. */
async function downloadSettlements(console: Console, { asked }: SettlementsVisit): Promise<Answer> {
  const days = daysIn(asked, console.now());
  const rows = await listSettlements(console.database, days, fileRowsMax);
  const heads = [
    'day',
    'partner',
    'currency',
    'payments',
    'gross',
    'refund_count',
    'refunds',
    'net',
  ];
  const lines = rows.map((each) => {
    const [gross, refunds, net] = [each.gross, each.refunds, each.net].map((amount) =>
      formatDecimal(amount, each.currency),
    );
    const { day, partner, currency, payments, refundCount } = each;
    const counts = [String(payments), String(refundCount)] as const;
    return csvRow([day, partner, currency, counts[0], gross!, counts[1], refunds!, net!]);
  });
  const name = `settlements-${days.from}-${days.until}.csv`;
  return { is: 'file', name, type: 'text/csv; charset=utf-8', pieces: [csvRow(heads), ...lines] };
}

/** The last week where nothing is said. @throws Refusal for what is no day. */
function daysIn(asked: SettlementsVisit['asked'], now: Date): SettlementDays {
  const dayOf = (at: number) => new Date(at).toISOString().slice(0, 10);
  const { from = dayOf(now.getTime() - 6 * dayMs), until = dayOf(now.getTime() + dayMs) } = asked;
  for (const day of [from, until]) {
    const isDay = /^\d{4}-\d\d-\d\d$/.test(day) && !Number.isNaN(Date.parse(day));
    if (!isDay || dayOf(Date.parse(day)) !== day) {
      throw new Refusal('invalid_request', `“${day}” is no day: write it as 2026-11-20.`);
    }
  }
  return { ...asked, from, until };
}
