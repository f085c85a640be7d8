import { actForm, actTable } from '../acts/acts-pages.ts';
import type { Answer, Console, Route, Visit } from '../console.ts';
import { page, reading } from '../edge/route.ts';
import { html, type Html, type Shown } from '../html/html.ts';
import { auditSchema, readAudits, type ScheduledAudit } from './listings.ts';
import { id, linked, number, seconds, state, table, time } from '../html/shown.ts';
import { type RecordedAct, listActs } from '@triplock/inspect';

const runsShown = 20;

/** The page of the audit, and the same for programs. */
export const auditRoutes: readonly Route[] = [
  page('/audit', showAudit),
  reading('/audit', {
    operationId: 'readAudit',
    summary: 'What the last scheduled audit found, what it closed, and what Kafka lost.',
    answers: auditSchema,
    read: auditsOf,
  }),
];

/** What the auditors found last, what people had them look for, and what they have closed. */
async function showAudit(console: Console, { session }: Visit): Promise<Answer> {
  const { last, slices, losses, runs } = await auditsOf(console);
  const main = html`${headline(last)} ${actForm(session, 'audit.run')}
    <h2>By check</h2>
    ${table('By check', ['Check', 'What it means', { figure: 'Ids' }, { figure: 'Oldest' }], {
      rows: findings(last, console.now()),
      empty: 'No check has found anything, and nothing is in flight.',
    })}
    <h2>Audits that were asked for</h2>
    ${lastRun(runs)}
    ${actTable(runs, {
      caption: 'Audits that were asked for',
      empty: 'Nobody has asked for one yet.',
    })}
    <h2>Lost by Kafka</h2>
    ${table('Lost by Kafka', ['Found', { figure: 'Id' }, 'Offsets', 'Why', 'Acknowledged'], {
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
      empty: 'Kafka has lost nothing before it was read.',
    })}
    <h2>Closed slices</h2>
    <p class="hint">
      Windows of time that came to their end and were compared in every layer. Each hash is over the
      slice and the hash before it.
    </p>
    ${table('Closed slices', [{ figure: 'No.' }, 'From', 'Until', 'Closed', 'Hash'], {
      rows: slices.map((each) => [
        number(each.nth),
        time(each.from),
        time(each.until),
        time(each.closedAt),
        each.doubted ? state('doubted') : id(each.hash.slice(0, 16)),
      ]),
      empty: 'No slice is closed yet: the first is closed some time after the system was started.',
    })}`;
  return { is: 'page', title: 'Audit', section: 'audit', main };
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
  if (endedAt === null) {
    return html`<p class="note">
      No audit has ended yet: an auditor runs one within a minute of its start.
    </p>`;
  }
  const many = Object.values(drift).reduce((sum, each) => sum + each, 0);
  const outcome =
    many === 0
      ? html`<span class="pill good">no drift</span>`
      : html`<span class="pill bad">${number(many)} offending ids</span>`;
  return html`<div class="title-line">
      ${outcome} <span>The last one ended ${time(endedAt)}, took ${seconds(tookMs / 1_000)}</span>
    </div>
    <p class="hint">
      ${
        many > 0
          ? 'Run the audit for the offending ids: the scheduled one keeps how many there are.'
          : 'Layers agree to the minor unit, but for what is in flight or waits for others.'
      }
    </p>`;
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
