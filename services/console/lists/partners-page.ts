import { actForm, foldedForm } from '../acts/acts-pages.ts';
import type { Answer, Console, Session, Visit } from '../console.ts';
import { html, type Html, type Shown } from '../html/html.ts';
import { listShownPartners, type ShownPartner } from './listings.ts';
import { field, id, state, table, time } from '../html/shown.ts';
import { words } from '../html/words.ts';

/** Partners and what may be shown of their keys. */
export async function showPartners(
  { database }: Console,
  { query, session }: Visit,
): Promise<Answer> {
  const say = words.partners;
  const partners = await listShownPartners(database, field(query, 'after'));
  const last = partners.at(-1);
  const main = html`${partners.length === 0 && html`<p class="empty">${say.empty}</p>`}
  ${partners.map((each) => partnerSection(each, session))} ${addPartner(session)}
  ${
    partners.length === 100 &&
    html`<p class="below"><a class="button" href="/partners?after=${last!.id}">${say.more}</a></p>`
  }`;
  return { is: 'page', title: say.title, section: 'partners', main };
}

/** The same for programs: `{ partners }`. */
export async function readPartners({ database }: Console, { query }: Visit): Promise<Answer> {
  return {
    is: 'json',
    body: { partners: await listShownPartners(database, field(query, 'after')) },
  };
}

/** The form that makes a partner. Its key is on the next page, and on no other. */
function addPartner(session: Session): Html | undefined {
  const say = words.partners;
  const inputs = html`<label
    >${say.id} <input name="partner" required pattern="[a-z0-9][a-z0-9\\-]{0,62}"
  /></label>`;
  const form = actForm(session, 'partners.add', { inputs });
  return (
    form &&
    html`<h2>${say.add}</h2>
      ${form}`
  );
}

function partnerSection(
  { id: name, createdAt, cardNumbersIn, keys }: ShownPartner,
  session: Session,
): Html {
  const say = words.partners;
  const rows = keys.map(({ prefix, createdAt: made, revokedAt }): Shown[] => [
    id(prefix === null ? say.notKept : `${prefix}…`),
    time(new Date(made)),
    revokedAt === null ? state('good') : html`${state('revoked')} ${time(new Date(revokedAt))}`,
    revokedAt === null && prefix !== null
      ? foldedForm(session, 'partners.revoke-key', { fields: { partner: name, prefix } })
      : '',
  ]);
  const isExempt = cardNumbersIn.length > 0;
  const allowed = isExempt ? 'no' : 'yes';
  const acts = [
    actForm(session, 'partners.rotate-key', { fields: { partner: name } }),
    actForm(session, 'partners.card-numbers', { fields: { partner: name, allowed } }),
  ].filter((each) => each !== undefined);
  return html`<h2>${name}</h2>
    <p class="hint">
      ${say.since} ${time(createdAt)}. ${isExempt && html`<b>${say.cardNumbers(cardNumbersIn)}</b>`}
      <a href="/payments?partner=${name}">${words.pages.payments}</a> ·
      <a href="/webhooks?partner=${name}">${words.pages.webhooks}</a> ·
      <a href="/settlements?partner=${name}">${words.pages.settlements}</a>
    </p>
    ${table(say.keysOf(name), say.keyHeads, { rows, empty: say.noKeys })}
    ${
      acts.length > 0 &&
      html`<details>
        <summary>${say.acts(name)}</summary>
        ${acts}
      </details>`
    }`;
}
