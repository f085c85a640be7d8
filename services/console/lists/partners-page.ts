import { actForm, foldedForm } from '../acts/acts-pages.ts';
import type { Answer, Console, Route, Session, Visit } from '../console.ts';
import { page, reading } from '../edge/route.ts';
import * as json from '../edge/schema.ts';
import { isExemptEverywhere } from '@triplock/payments';
import { html, type Html, type Shown } from '../html/html.ts';
import { listShownPartners, shownPartner, type ShownPartner } from './listings.ts';
import { goesOn, id, state, table, time } from '../html/shown.ts';

const asksPartners = json.query({ after: json.sent('the name of the last partner of a page') });
type PartnersVisit = Visit<json.ValueOf<typeof asksPartners>>;

/** The page of partners, and the same for programs. */
export const partnersRoutes: readonly Route[] = [
  page('/partners', showPartners, asksPartners),
  reading('/partners', {
    operationId: 'listPartners',
    summary: 'Partners by name, 100 at a time, and what may be shown of their keys.',
    asks: asksPartners,
    answers: json.component('Partners', { partners: json.listOf(shownPartner) }),
    read: async ({ database }, { asked }) => ({
      partners: await listShownPartners(database, asked.after),
    }),
  }),
];

/** Partners and what may be shown of their keys. */
async function showPartners(
  { database }: Console,
  { asked, query, session }: PartnersVisit,
): Promise<Answer> {
  const partners = await listShownPartners(database, asked.after);
  const last = partners.at(-1);
  const main = html`${partners.length === 0 && html`<p class="empty">There is no partner yet.</p>`}
  ${partners.map((each) => partnerSection(each, session))} ${addPartner(session)}
  ${
    partners.length === 100 &&
    html`<p class="below">
      ${goesOn('/partners', 'More partners', { query, place: { after: last!.id } })}
    </p>`
  }`;
  return { is: 'page', title: 'Partners', section: 'partners', main };
}

/** The form that makes a partner. Its key is on the next page, and on no other. */
function addPartner(session: Session): Html | undefined {
  const inputs = html`<label
    >Its name, of a-z, 0-9 and - <input name="partner" required pattern="[a-z0-9][a-z0-9\\-]{0,62}"
  /></label>`;
  const form = actForm(session, 'partners.add', { inputs });
  return (
    form &&
    html`<h2>A new partner</h2>
      ${form}`
  );
}

function partnerSection(
  { id: name, createdAt, cardNumbersIn, keys }: ShownPartner,
  session: Session,
): Html {
  const rows = keys.map((key): Shown[] => [
    id(key.prefix === null ? '(beginning not kept)' : `${key.prefix}…`),
    key.scope,
    time(new Date(key.createdAt)),
    key.lastUsedAt === null ? 'never' : time(new Date(key.lastUsedAt)),
    stateOf(key),
    key.revokedAt === null && key.prefix !== null
      ? foldedForm(session, 'partners.revoke-key', {
          fields: { partner: name, prefix: key.prefix },
        })
      : '',
  ]);
  const isExempt = cardNumbersIn.length > 0;
  const exempt = isExemptEverywhere(cardNumbersIn) ? '' : ` in ${cardNumbersIn.join(', ')}`;
  const allowed = isExempt ? 'no' : 'yes';
  const acts = [
    actForm(session, 'partners.rotate-key', { fields: { partner: name } }),
    actForm(session, 'partners.card-numbers', { fields: { partner: name, allowed } }),
  ].filter((each) => each !== undefined);
  return html`<h2>${name}</h2>
    <p class="hint">
      Since ${time(createdAt)}.
      ${isExempt && html`<b>Its texts may look like card numbers${exempt}.</b>`}
      <a href="/payments?partner=${name}">Payments</a> ·
      <a href="/webhooks?partner=${name}">Webhooks</a> ·
      <a href="/settlements?partner=${name}">Settlements</a>
    </p>
    ${table(`API keys of ${name}`, ['Key', 'Scope', 'Made', 'Last used', 'State', 'Act'], {
      rows,
      empty: 'It has no key, so it can ask for nothing.',
    })}
    ${
      acts.length > 0 &&
      html`<details>
        <summary>Change ${name}</summary>
        ${acts}
      </details>`
    }`;
}

function stateOf({ expiresAt, revokedAt }: ShownPartner['keys'][number]): Html {
  if (revokedAt !== null) return html`${state('revoked')} ${time(new Date(revokedAt))}`;
  if (expiresAt === null) return html`${state('good')}`;
  const at = new Date(expiresAt);
  return at > new Date()
    ? html`${state('good')} until ${time(at)}`
    : html`${state('expired')} ${time(at)}`;
}
