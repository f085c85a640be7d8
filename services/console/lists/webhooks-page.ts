import { actForm, foldedForm } from '../acts/acts-pages.ts';
import type { Answer, Console, Route, Session, Visit } from '../console.ts';
import { after, ofPartner, page, reading } from '../edge/route.ts';
import * as json from '../edge/schema.ts';
import { html, type Html, type Shown } from '../html/html.ts';
import { goesOn, id, number, select, state, table, time } from '../html/shown.ts';
import { listPartners } from '../payments/payments.ts';
import {
  listDeliveries,
  listedDelivery,
  listedEndpoint,
  listEndpoints,
  type ListedDelivery,
  type ListedEndpoint,
} from './listings.ts';

const asksWebhooks = json.query({
  partner: ofPartner,
  // Those have an index of their own; no other state can be asked for.
  state: json.choice(['failed'], 'failed: those that were given up'),
  after,
});
type WebhooksVisit = Visit<json.ValueOf<typeof asksWebhooks>>;

/** The page of webhooks, and the same for programs. */
export const webhookRoutes: readonly Route[] = [
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
  const open = each.failingSince ? 'failing' : 'open';
  const now = each.disabledAt ? 'disabled' : each.verified ? open : 'unverified';
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
    html`${state(now)} ${each.disabledAt && html`since ${time(each.disabledAt)}:`}
    ${each.failingSince && html`has taken nothing since ${time(each.failingSince)}`}
    ${each.disabledBecause === 'gone' && 'its server answered 410 Gone'}`,
    each.types?.join(', ') ?? 'all',
    time(each.madeAt),
    html`${until && html`two sign until ${time(until)}`} ${rotation}`,
  ];
}
