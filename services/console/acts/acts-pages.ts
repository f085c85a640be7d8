import { actSchema, askedActSchema, runAct } from './acts.ts';
import type { KindOfAct } from './kind-of-act.ts';
import {
  mayAct,
  Refusal,
  type Answer,
  type Console,
  type Route,
  type Session,
  type Visit,
} from '../console.ts';
import { page, reading } from '../edge/route.ts';
import * as json from '../edge/schema.ts';
import { html, type Html, type Shown } from '../html/html.ts';
import { actNames, kindsOfActs, type ActName } from './kinds-of-acts.ts';
import { facts, goesOn, linked, state, table, time } from '../html/shown.ts';
import { findAct, type RecordedAct, listActs } from '@triplock/inspect';

const asksActs = json.query({
  before: json.sent('the number of an act: those before it', '^[1-9][0-9]{0,17}$'),
  act: json.sent('a kind of act: those of this kind'),
  target: json.sent('what acts were done to: those on this'),
  by: json.sent('the name of an operator: their acts'),
});
type ActsVisit = Visit<json.ValueOf<typeof asksActs>>;

/** The record of acts, and every kind of act as a form's target and as a path of the API. */
export const actRoutes: readonly Route[] = [
  page('/acts', showActs, asksActs),
  page('/acts/:id', showAct),
  reading('/acts', {
    operationId: 'listActs',
    summary: 'Who did what and why, newest first.',
    asks: asksActs,
    answers: json.component('Acts', { data: json.listOf(actSchema), has_more: json.flag }),
    read: actsFor,
  }),
  reading('/acts/:id', {
    operationId: 'readAct',
    summary: 'One act.',
    answers: actSchema,
    read: oneAct,
  }),
  ...actNames.flatMap((name): Route[] => {
    const { label, role, except, asks }: KindOfAct = kindsOfActs[name];
    const how = { method: 'POST', role, asks, ...(except && { except }) } as const;
    const operationId = name.replaceAll(/[.-](\w)/g, (_, letter: string) => letter.toUpperCase());
    const byApi: Route['answer'] = async (console, visit) => {
      return { is: 'json', body: await runAct(console, name, visit) };
    };
    const api = { operationId, summary: `${label}.`, answers: askedActSchema };
    return [
      { ...how, path: `/acts/${name}`, answer: byForm(name) },
      { ...how, path: `/api/v1/acts/${name}`, api, answer: byApi },
    ];
  }),
];

/** What a form asks: `fields` are sent along unseen, `inputs` are what else is asked. */
export type FormOfAct = { fields?: Readonly<Record<string, string>>; inputs?: Html };

/**
 * The form of an act on a page, or of several on the same fields, each with its button. Sent twice,
 * each is done once: a button carries the id by which its act is known. Nothing for somebody whose
 * role may do none of them.
 */
export function actForm(
  { role, csrf }: Session,
  acts: ActName | readonly ActName[],
  { fields = {}, inputs }: FormOfAct = {},
): Html | undefined {
  const names = [acts].flat().filter((name) => mayAct(role, kindsOfActs[name].role));
  const [first] = names;
  if (first === undefined) return undefined;
  const buttons = names.map(
    (name) =>
      html`<button name="form" value="${crypto.randomUUID()}" formaction="/acts/${name}">
        ${kindsOfActs[name].label}
      </button>`,
  );
  return html`<form class="act" method="post" action="/acts/${first}">
    ${Object.entries({ csrf, ...fields }).map(
      ([field, value]) => html`<input type="hidden" name="${field}" value="${value}" />`,
    )}
    ${inputs}
    <label>Reason <input name="reason" required maxlength="500" autocomplete="off" /></label>
    ${buttons}
  </form>`;
}

/** The same, out of the way until somebody wants it. */
export function foldedForm(
  session: Session,
  name: ActName,
  { summary = kindsOfActs[name].label, ...form }: FormOfAct & { summary?: string } = {},
): Html | undefined {
  const shown = actForm(session, name, form);
  if (shown === undefined) return undefined;
  return html`<details>
    <summary>${summary}</summary>
    ${shown}
  </details>`;
}

function byForm(name: ActName) {
  return async (console: Console, visit: Visit): Promise<Answer> => {
    const asked = await runAct(console, name, visit);
    if (asked.outcome === 'asked-before' || asked.secret === undefined) {
      const { then }: KindOfAct = kindsOfActs[name];
      const record = `/acts/${asked.id}` as const;
      return { is: 'redirect', to: asked.outcome === 'done' ? (then ?? record) : record };
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

const actsOnPage = 50;

/** What is asked for, as `before` goes on through it. */
async function actsFor({ records }: Console, { asked: { before, ...filter } }: ActsVisit) {
  const acts = await listActs(records, {
    limit: actsOnPage + 1,
    ...(before !== undefined && { before: BigInt(before) }),
    ...filter,
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

async function showActs(console: Console, visit: ActsVisit): Promise<Answer> {
  const { data, has_more: hasMore } = await actsFor(console, visit);
  const place = { before: String(data.at(-1)?.id ?? '') };
  const main = html`${actTable(data, { caption: 'Acts', empty: 'Nobody has done anything yet.' })}
  ${
    hasMore &&
    html`<p class="below">${goesOn('/acts', 'Older acts', { query: visit.query, place })}</p>`
  }`;
  return { is: 'page', title: 'Acts', section: 'acts', main };
}

/** Acts in a table, as they come. */
export function actTable(
  acts: readonly RecordedAct[],
  { caption, empty }: { caption: string; empty: string },
): Html {
  const rows = acts.map((act): Shown[] => [
    html`<a href="/acts/${act.id}">${act.id} ${act.act}</a>`,
    act.target,
    act.by,
    act.why,
    time(act.begunAt),
    outcomeOf(act),
  ]);
  return table(caption, ['Act', 'On', 'By', 'Reason', 'Begun', 'Outcome'], { rows, empty });
}

async function showAct(console: Console, visit: Visit): Promise<Answer> {
  const act = await oneAct(console, visit);
  const main = html`${facts([
      ['On', act.target],
      ['By', `${act.by} (${act.role})`],
      ['Reason', act.why],
      ['Begun', time(act.begunAt, 'milliseconds')],
      ['Outcome', outcomeOf(act)],
      ['Finished', act.finishedAt && time(act.finishedAt, 'milliseconds')],
    ])}
    ${
      act.detail !== '' &&
      html`<h2>What came of it</h2>
        <p class="lines">${linked(act.detail)}</p>`
    }
    <p><a href="/acts">All acts</a></p>`;
  return { is: 'page', title: `Act ${act.id}: ${act.act}`, section: 'acts', main };
}

/** Of an act that is not finished nobody knows more than that it began. */
function outcomeOf({ outcome }: RecordedAct): Html {
  return outcome === 'begun'
    ? html`${state(outcome)} what came of it is not known`
    : state(outcome);
}
