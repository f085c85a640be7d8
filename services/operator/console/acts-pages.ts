import { findAct, listActs, runAct, type RecordedAct } from './acts.ts';
import {
  mayAct,
  Refusal,
  type Answer,
  type Console,
  type Route,
  type Session,
  type Visit,
} from './console.ts';
import { html, type Html } from './html.ts';
import { actNames, kindsOfActs, type ActName } from './kinds-of-acts.ts';

/** The record of acts, and every kind of act as a form's target and as a path of the API. */
export const actRoutes: readonly Route[] = [
  { method: 'GET', path: '/acts', role: 'viewer', answer: showActs },
  { method: 'GET', path: '/acts/:id', role: 'viewer', answer: showAct },
  { method: 'GET', path: '/api/v1/acts', role: 'viewer', answer: readActs },
  { method: 'GET', path: '/api/v1/acts/:id', role: 'viewer', answer: readAct },
  ...actNames.flatMap((name): Route[] => {
    const { role } = kindsOfActs[name];
    return [
      { method: 'POST', path: `/acts/${name}`, role, answer: byForm(name) },
      { method: 'POST', path: `/api/v1/acts/${name}`, role, answer: byApi(name) },
    ];
  }),
];

/**
 * The form of an act on a page: `fields` are sent along unseen, `inputs` are what else is asked.
 * Sent twice it is done once. Nothing for somebody whose role may not do it.
 */
export function actForm(
  { role, csrf }: Session,
  name: ActName,
  { fields = {}, inputs }: { fields?: Readonly<Record<string, string>>; inputs?: Html } = {},
): Html | undefined {
  const { label, role: needed } = kindsOfActs[name];
  if (!mayAct(role, needed)) return undefined;
  const hidden = { csrf, form: crypto.randomUUID(), ...fields };
  return html`<form class="act" method="post" action="/acts/${name}">
    ${Object.entries(hidden).map(
      ([field, value]) => html`<input type="hidden" name="${field}" value="${value}" />`,
    )}
    ${inputs}
    <label>Reason <input name="reason" required maxlength="500" autocomplete="off" /></label>
    <button>${label}</button>
  </form>`;
}

function byForm(name: ActName) {
  return async (console: Console, visit: Visit): Promise<Answer> => {
    const asked = await runAct(console, name, visit);
    if (asked.outcome === 'asked-before' || asked.secret === undefined) {
      return { is: 'redirect', to: `/acts/${asked.id}` };
    }
    const main = html`<p>${asked.detail}</p>
      <p>
        <label
          >Shown this once <output><code>${asked.secret}</code></output></label
        >
      </p>
      <p><a href="/acts/${asked.id}">The record of this act</a></p>`;
    return { is: 'page', title: kindsOfActs[name].label, main };
  };
}

function byApi(name: ActName) {
  return async (console: Console, visit: Visit): Promise<Answer> => {
    const asked = await runAct(console, name, visit);
    return { is: 'json', body: asked };
  };
}

const actsOnPage = 50;

async function readActs({ records }: Console, visit: Visit): Promise<Answer> {
  return { is: 'json', body: await actsFor(records, visit) };
}

/** @throws Refusal where the cursor is none of this list. */
async function actsFor(records: Console['records'], { query }: Visit) {
  const cursor = query.get('before');
  if (cursor !== null && !isNumber(cursor)) {
    throw new Refusal('invalid_request', 'before must be the number of an act.');
  }
  const [target, by] = ['target', 'by'].map((name) => query.get(name) || undefined);
  const acts = await listActs(records, {
    limit: actsOnPage + 1,
    ...(cursor !== null && { before: BigInt(cursor) }),
    ...(target !== undefined && { target }),
    ...(by !== undefined && { by }),
  });
  return { data: acts.slice(0, actsOnPage), has_more: acts.length > actsOnPage };
}

const isNumber = (text: string) => /^[1-9]\d{0,17}$/.test(text);

async function oneAct({ records }: Console, { params }: Visit): Promise<RecordedAct> {
  const id = params['id'] ?? '';
  const act = isNumber(id) ? await findAct(records, BigInt(id)) : undefined;
  if (act === undefined) throw new Refusal('not_found', 'No act has this number.');
  return act;
}

async function readAct(console: Console, visit: Visit): Promise<Answer> {
  return { is: 'json', body: await oneAct(console, visit) };
}

async function showActs(console: Console, visit: Visit): Promise<Answer> {
  const { data, has_more: hasMore } = await actsFor(console.records, visit);
  const query = new URLSearchParams(visit.query);
  query.set('before', String(data.at(-1)?.id ?? ''));
  const main = html`<div class="scroll" tabindex="0" role="region" aria-label="Acts">
      <table>
        <thead>
          <tr>
            <th scope="col">Act</th>
            <th scope="col">On</th>
            <th scope="col">By</th>
            <th scope="col">Reason</th>
            <th scope="col">Begun</th>
            <th scope="col">Outcome</th>
          </tr>
        </thead>
        <tbody>
          ${data.map(
            (act) =>
              html`<tr>
                <td><a href="/acts/${act.id}">${act.id} ${act.act}</a></td>
                <td>${act.target}</td>
                <td>${act.by}</td>
                <td>${act.why}</td>
                <td>${act.begunAt.toISOString()}</td>
                <td>${outcomeOf(act)}</td>
              </tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${data.length === 0 && html`<p>Nobody has done anything yet.</p>`}
    ${actForm(visit.session, 'audit.run')}
    ${hasMore && html`<p><a href="/acts?${query.toString()}">Older</a></p>`}`;
  return { is: 'page', title: 'Acts', section: 'acts', main };
}

async function showAct(console: Console, visit: Visit): Promise<Answer> {
  const act = await oneAct(console, visit);
  const rows = {
    On: act.target,
    By: `${act.by} (${act.role})`,
    Reason: act.why,
    Begun: act.begunAt.toISOString(),
    Outcome: outcomeOf(act),
    Finished: act.finishedAt?.toISOString() ?? '',
    'What came of it': act.detail,
  };
  const main = html`<dl>
      ${Object.entries(rows).map(
        ([name, value]) =>
          html`<dt>${name}</dt>
            <dd>${value}</dd>`,
      )}
    </dl>
    <p><a href="/acts">All acts</a></p>`;
  return { is: 'page', title: `Act ${act.id}: ${act.act}`, section: 'acts', main };
}

/** Of an act that is not finished nobody knows more than that it began. */
function outcomeOf({ outcome }: RecordedAct): string {
  return outcome === 'begun' ? 'begun; what came of it is not known' : outcome;
}
