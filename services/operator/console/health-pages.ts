import {
  parseDeadLetterId,
  listDeadRows,
  listDeadRecords,
  showDeadLetter,
  type DeadLetter,
} from '../dead-letter-sources.ts';
import { sourcesOf } from '../dead-letters.ts';
import { UsageError, wordsOf } from '../command.ts';
import { toJson } from '../terminal.ts';
import { actForm } from './acts-pages.ts';
import { mayAct, Refusal, type Answer, type Console, type Session, type Visit } from './console.ts';
import { html, type Html, type Shown } from './html.ts';
import { listRefusedMessages, readAudits, type ScheduledAudit } from './listings.ts';
import { kindsOfActs } from './kinds-of-acts.ts';
import { masked } from './payment.ts';
import { id, number, seconds, state, table, time } from './shown.ts';
import { words } from './words.ts';

/** More than a person works through on one page; the command lists all. */
const shownMax = 200;

/** What was set aside: of the database at once, of Kafka as soon as it answers. */
export async function showDeadLetters({ database }: Console, { session }: Visit): Promise<Answer> {
  const say = words.deadLetters;
  const [rows, refused] = await Promise.all([
    listDeadRows(database),
    listRefusedMessages(database, shownMax),
  ]);
  const refusedRows = refused.map((each): Shown[] => [
    time(each.at),
    each.consumer,
    id(each.id),
    `${each.reason}: ${each.detail}`,
    html`<details>
      <summary>${say.bytes(number(each.bytes))}</summary>
      <pre>${masked(each.text)}</pre>
    </details>`,
  ]);
  const main = html`<p class="lead">${say.intro}</p>
    <h2>${say.inDatabase}</h2>
    ${letterTable(say.inDatabase, rows, session)}
    <h2>${say.inKafka}</h2>
    <div hx-get="/dead-letters/records" hx-trigger="load">
      <a href="/dead-letters/records">${say.askKafka}</a>
    </div>
    <h2>${say.refused}</h2>
    <p class="hint">${say.refusedHint}</p>
    ${table(say.refused, say.refusedHeads, { rows: refusedRows, empty: say.empty })}`;
  return { is: 'page', title: say.title, section: 'dead-letters', main };
}

/** A piece of that page: the records of the dead-letter topic. */
export async function showDeadRecords(
  { config, database }: Console,
  { session }: Visit,
): Promise<Answer> {
  const say = words.deadLetters;
  try {
    const records = await listDeadRecords(sourcesOf(config, database));
    return { is: 'fragment', html: letterTable(say.inKafka, records, session) };
  } catch (error) {
    return { is: 'fragment', html: html`<p class="trouble">${say.away} ${wordsOf(error)}</p>` };
  }
}

/** Everything for programs: `{ letters, refused, unasked }`. */
export async function readDeadLetters({ config, database }: Console): Promise<Answer> {
  const unasked: string[] = [];
  const [rows, refused, records] = await Promise.all([
    listDeadRows(database),
    listRefusedMessages(database, shownMax),
    Promise.resolve()
      .then(() => listDeadRecords(sourcesOf(config, database)))
      .catch((error: unknown) => {
        unasked.push(`kafka: ${wordsOf(error)}`);
        return [];
      }),
  ]);
  return { is: 'json', body: { letters: [...records, ...rows], refused, unasked } };
}

/** One dead letter, as it was: its bytes, its headers, its attempts. */
export async function showLetter(console: Console, visit: Visit): Promise<Answer> {
  const say = words.deadLetters;
  const { asked, letter } = await letterIn(console, visit);
  const main = html`<p><a href="/dead-letters">${say.back}</a></p>
    ${actForm(visit.session, 'dead-letters.redrive', { fields: { id: asked } })}
    <pre>${masked(toJson(letter, 2))}</pre>`;
  return { is: 'page', title: say.one(asked), section: 'dead-letters', main };
}

/** The same for programs. */
export async function readLetter(console: Console, visit: Visit): Promise<Answer> {
  const { letter } = await letterIn(console, visit);
  return { is: 'json', body: JSON.parse(masked(toJson(letter))) };
}

async function letterIn({ config, database }: Console, { params }: Visit) {
  const asked = params['id'] ?? '';
  try {
    const letter = await showDeadLetter(sourcesOf(config, database), parseDeadLetterId(asked));
    if (letter !== undefined) return { asked, letter };
  } catch (error) {
    if (error instanceof UsageError) throw new Refusal('invalid_request', error.message);
    throw new Refusal('unavailable', `${words.deadLetters.away} ${wordsOf(error)}`);
  }
  throw new Refusal('not_found', words.deadLetters.gone);
}

/** With a form around it, by which those that are chosen are redriven, where the role allows it. */
function letterTable(caption: string, letters: readonly DeadLetter[], session: Session): Html {
  const say = words.deadLetters;
  const choosable = mayAct(session.role, kindsOfActs['dead-letters.redrive'].role);
  const rows = letters
    .slice(0, shownMax)
    .map((each): Shown[] => [
      ...(choosable
        ? [html`<input type="checkbox" name="id" value="${each.id}" aria-label="${each.id}" />`]
        : []),
      time(each.at),
      html`<a href="/dead-letters/${each.id}">${id(each.id)}</a>`,
      each.partner,
      linkTo(each.about),
      each.reason,
      each.redriven && html`${time(each.redriven.at)} ${say.by(each.redriven.by)}`,
    ]);
  const more = letters.length - rows.length;
  const heads = choosable ? [say.choose, ...say.heads] : say.heads;
  const shown = table(caption, heads, { rows, empty: say.empty });
  const isActable = choosable && rows.length > 0;
  return html`${isActable ? actForm(session, 'dead-letters.redrive', { inputs: shown }) : shown}
  ${more > 0 && html`<p class="note below">${say.more(number(more))}</p>`}`;
}

function linkTo(about: string): Shown {
  const isId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(about);
  return isId ? html`<a href="/payments/${about}">${id(about)}</a>` : masked(about);
}

/** What the auditors found last, and what they have closed. */
export async function showAudit({ database, now }: Console, { session }: Visit): Promise<Answer> {
  const say = words.audit;
  const { last, slices, losses } = await readAudits(database);
  const main = html`${headline(last)} ${actForm(session, 'audit.run')}
    <h2>${say.found}</h2>
    ${table(say.found, say.foundHeads, { rows: findings(last, now()), empty: say.nothing })}
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

/** The same for programs. */
export async function readAudit({ database }: Console): Promise<Answer> {
  return { is: 'json', body: await readAudits(database) };
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
