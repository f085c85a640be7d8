import { formatDecimal } from '@triplock/payments';
import { Refusal, type Answer, type Console, type Route, type Visit } from '../console.ts';
import { ofPartner, page, reading } from '../edge/route.ts';
import * as json from '../edge/schema.ts';
import { csvRow } from '../html/csv.ts';
import { html, type Shown } from '../html/html.ts';
import { money, number, select, table } from '../html/shown.ts';
import { listPartners } from '../payments/payments.ts';
import { listedSettlement, listSettlements, type SettlementDays } from './listings.ts';

const asksSettlements = json.query({
  partner: ofPartner,
  from: json.sent('a day such as 2026-11-20: from then on'),
  until: json.sent('a day such as 2026-11-20: until then, that day included'),
});
type SettlementsVisit = Visit<json.ValueOf<typeof asksSettlements>>;

/** The page of settlements with its file, and the same for programs. */
export const settlementRoutes: readonly Route[] = [
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
    each.closed ? 'closed' : 'open',
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
        'State',
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
