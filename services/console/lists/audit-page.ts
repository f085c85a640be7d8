import { actForm, actTable } from '../acts/acts-pages.ts';
import type { Answer, Console, Visit } from '../console.ts';
import { html, type Html, type Shown } from '../html/html.ts';
import { readAudits, type ScheduledAudit } from './listings.ts';
import { id, linked, number, seconds, state, table, time } from '../html/shown.ts';
import { words } from '../html/words.ts';
import { type RecordedAct, listActs } from '@triplock/inspect';

const runsShown = 20;

/** What the auditors found last, what people had them look for, and what they have closed. */
export async function showAudit(console: Console, { session }: Visit): Promise<Answer> {
  const say = words.audit;
  const { last, slices, losses, runs } = await auditsOf(console);
  const main = html`${headline(last)} ${actForm(session, 'audit.run')}
    <h2>${say.found}</h2>
    ${table(say.found, say.foundHeads, { rows: findings(last, console.now()), empty: say.nothing })}
    <h2>${say.runs}</h2>
    ${lastRun(runs)} ${actTable(runs, { caption: say.runs, empty: say.noRuns })}
    <h2>${say.losses}</h2>
    ${table(say.losses, say.lossHeads, {
      rows: losses.map((each) => [
        time(each.foundAt),
        number(each.id),
        `${each.topic}/${each.partition}, ${each.from} – ${each.to - 1n}`,
        each.why,
        each.acknowledgedAt
          ? time(each.acknowledgedAt)
          : (actForm(session, 'losses.acknowledge', { fields: { id: String(each.id) } }) ??
            state('open-loss')),
      ]),
      empty: say.noLosses,
    })}
    <h2>${say.slices}</h2>
    <p class="hint">${say.slicesHint}</p>
    ${table(say.slices, say.sliceHeads, {
      rows: slices.map((each) => [
        number(each.nth),
        time(each.from),
        time(each.until),
        time(each.closedAt),
        each.doubted ? state('doubted') : id(each.hash.slice(0, 16)),
      ]),
      empty: say.noSlices,
    })}`;
  return { is: 'page', title: say.title, section: 'audit', main };
}

/** The same for programs: `{ last, slices, losses, runs }`. */
export async function readAudit(console: Console): Promise<Answer> {
  return { is: 'json', body: await auditsOf(console) };
}

async function auditsOf({ database, records }: Console) {
  const [found, runs] = await Promise.all([
    readAudits(database),
    listActs(records, { act: 'audit.run', limit: runsShown }),
  ]);
  return { ...found, runs };
}

/** The newest that came to its end, with the ids that it found. */
function lastRun(runs: readonly RecordedAct[]): Html | undefined {
  const run = runs.find(({ outcome }) => outcome === 'done');
  if (run === undefined) return undefined;
  return html`<p class="lines">${time(run.begunAt)}: ${linked(run.detail)}</p>`;
}

function headline({ endedAt, tookMs, drift }: ScheduledAudit): Html {
  const say = words.audit;
  if (endedAt === null) return html`<p class="note">${say.never}</p>`;
  const many = Object.values(drift).reduce((sum, each) => sum + each, 0);
  const outcome =
    many === 0
      ? html`<span class="pill good">${words.flow.noDrift}</span>`
      : html`<span class="pill bad">${words.flow.drift(number(many))}</span>`;
  return html`<div class="title-line">
      ${outcome} <span>${say.ended} ${time(endedAt)}, ${say.took(seconds(tookMs / 1_000))}</span>
    </div>
    <p class="hint">${many > 0 ? say.idsByRun : say.meaning}</p>`;
}

/** By check: drift first, then what is in flight or waits for others, which is none. */
function findings(last: ScheduledAudit, now: Date): Shown[][] {
  const kinds = [
    ['drift', last.drift, {}],
    ['in-flight', last.inFlight, last.inFlightSince],
    ['waiting', last.waiting, last.waitingSince],
  ] as const;
  return kinds.flatMap(([kind, counts, since]) =>
    Object.entries(counts)
      .filter(([, many]) => many > 0)
      .map(([check, many]): Shown[] => {
        const from = (since as Record<string, string>)[check];
        const age = from === undefined ? '' : seconds((now.getTime() - Date.parse(from)) / 1_000);
        return [html`<code>${check}</code>`, state(kind), number(many), age];
      }),
  );
}
