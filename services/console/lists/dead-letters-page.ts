import {
  dismissableOf,
  listDeadRecords,
  listDeadRows,
  parseDeadLetterId,
  renderDeadLetterId,
  showDeadLetter,
  type DeadLetter,
  type Wanted,
  sourcesOf,
  type PastAct,
} from '@triplock/inspect';
import { UsageError, wordsOf, toJson } from '@triplock/command';
import { actForm } from '../acts/acts-pages.ts';
import { refusing } from '../acts/acts.ts';
import {
  mayAct,
  Refusal,
  type Answer,
  type Console,
  type Route,
  type Session,
  type Visit,
} from '../console.ts';
import { html, type Html, type Shown } from '../html/html.ts';
import { kindsOfActs, lettersMax, type ActName } from '../acts/kinds-of-acts.ts';
import { describeCopy } from '../payments/payment.ts';
import { page, reading } from '../edge/route.ts';
import * as json from '../edge/schema.ts';
import { id, maskedIn, number, paymentLink, table, time } from '../html/shown.ts';

const inKafka = 'Records of Kafka';
const away = 'This part did not answer; the rest is shown.';

/** More than a person works through on one page; the command lists all. */
const shownMax = 200;

const asksShow = json.query({
  show: json.choice(['waiting', 'dismissed'], 'waiting, or dismissed'),
});
type ShowVisit = Visit<json.ValueOf<typeof asksShow>>;

const pastAct = json.shapeOf<PastAct>('PastAct', {
  by: json.text,
  at: json.time,
  why: json.orNull(json.text),
});
const deadLetter = json.shapeOf<DeadLetter>('DeadLetter', {
  id: json.text,
  at: json.time,
  partner: json.text,
  about: json.text,
  reason: json.text,
  redriven: json.orNull(pastAct),
  dismissed: json.orNull(pastAct),
});

/** The pages of dead letters, and the same for programs. */
export const deadLetterRoutes: readonly Route[] = [
  page('/dead-letters', showDeadLetters, asksShow),
  page('/dead-letters/records', showDeadRecords, asksShow),
  page('/dead-letters/:id', showLetter),
  reading('/dead-letters', {
    operationId: 'listDeadLetters',
    summary: 'What could not go on and was set aside.',
    asks: asksShow,
    answers: json.component('DeadLetters', {
      letters: json.listOf(deadLetter),
      unasked: json.listOf(json.text),
    }),
    read: readDeadLetters,
  }),
  reading('/dead-letters/:id', {
    operationId: 'readDeadLetter',
    summary: 'One of them, as it was.',
    answers: json.named('Letter', {
      type: 'object',
      required: ['id'],
      properties: { id: json.text },
      description: 'all that is known of it, by where it was set aside',
    }),
    read: async (console, visit) => (await letterIn(console, visit)).letter,
  }),
];

/** What was set aside: of the database at once, of Kafka as soon as it answers. */
async function showDeadLetters(console: Console, visit: ShowVisit): Promise<Answer> {
  const { show: wanted = 'waiting' } = visit.asked;
  const [rows, copy] = await Promise.all([
    listDeadRows(console.database, wanted).then(withoutCards),
    describeCopy(console),
  ]);
  const records = `/dead-letters/records?show=${wanted}`;
  const other = wanted === 'waiting' ? 'dismissed' : 'waiting';
  const main = html`<p class="lead">
      What could not go on and was set aside. Nothing here is lost, and nothing here goes on by
      itself.
    </p>
    ${copy && html`<p class="note">${copy}</p>`}
    <p>
      ${
        wanted === 'dismissed' && 'A person has decided of each of these that it stays where it is.'
      }
      <a href="/dead-letters?show=${other}"
        >${other === 'waiting' ? 'Show what waits' : 'Show what was dismissed'}</a
      >
    </p>
    ${sections.map(({ title, of, acts, hint }) => {
      const letters = rows.filter(({ id: each }) => of.some((source) => each.startsWith(source)));
      return html`<h2>${title}</h2>
        ${hint && html`<p class="hint">${hint}</p>`}
        ${letterTable({ caption: title, letters, acts, wanted }, visit.session)}`;
    })}
    <h2>${inKafka}</h2>
    <div hx-get="${records}" hx-trigger="load">
      <a href="${records}">Ask Kafka for its dead letters</a>
    </div>`;
  return { is: 'page', title: 'Dead letters', section: 'dead-letters', main };
}

const bothActs = ['dead-letters.redrive', 'dead-letters.dismiss'] as const;

type Section = { title: string; of: readonly string[]; acts: readonly ActName[]; hint?: string };

/** What of the database stands together: what may be done about it is the same. */
const sections: readonly Section[] = [
  {
    title: 'Parked events and pending transactions',
    of: ['outbox:', 'transaction:'],
    acts: ['dead-letters.redrive'],
  },
  { title: 'Webhooks given up', of: ['webhook:'], acts: bothActs },
  {
    title: 'Messages that consumers refused',
    of: ['refused:'],
    acts: bothActs,
    hint: 'They are no events of this system, were acknowledged, and had no effect. Pub/Sub will not bring them again; redriven, each goes to every consumer once more, and those that have its event know it.',
  },
];

/** A piece of that page: the records of the dead-letter topic. */
async function showDeadRecords(
  { config, database }: Console,
  { asked: { show: wanted = 'waiting' }, session }: ShowVisit,
): Promise<Answer> {
  try {
    const letters = withoutCards(await listDeadRecords(sourcesOf(config, database), wanted));
    const shown = { caption: inKafka, letters, acts: bothActs, wanted };
    return { is: 'fragment', html: letterTable(shown, session) };
  } catch (error) {
    return { is: 'fragment', html: html`<p class="trouble">${away} ${wordsOf(error)}</p>` };
  }
}

/** Everything for programs. */
async function readDeadLetters(
  { config, database }: Console,
  { asked: { show: wanted = 'waiting' } }: ShowVisit,
) {
  const unasked: string[] = [];
  const [rows, records] = await Promise.all([
    listDeadRows(database, wanted),
    Promise.resolve()
      .then(() => listDeadRecords(sourcesOf(config, database), wanted))
      .catch((error: unknown) => {
        unasked.push(`kafka: ${wordsOf(error)}`);
        return [];
      }),
  ]);
  return { letters: withoutCards([...records, ...rows]), unasked };
}

/**
 * What people and partners wrote, without card numbers. The ids are of brokers and databases, and a
 * number of theirs that looks like a card's by chance has to stay: it is redriven by nothing else.
 */
function withoutCards(letters: readonly DeadLetter[]): DeadLetter[] {
  return letters.map((letter) => ({ ...maskedIn(letter), id: letter.id }));
}

/** One dead letter, as it was: its bytes, its headers, its attempts. */
async function showLetter(console: Console, visit: Visit): Promise<Answer> {
  const { asked, letter } = await letterIn(console, visit);
  const again = html`<label class="check"
    ><input type="checkbox" name="again" value="yes" /> Redrive it although it was redriven or
    dismissed before</label
  >`;
  const main = html`<p><a href="/dead-letters">All dead letters</a></p>
    ${actForm(visit.session, actsOn(asked), {
      fields: { id: asked },
      inputs: again,
    })}
    <pre>${toJson(letter, 2)}</pre>`;
  return { is: 'page', title: `Dead letter ${asked}`, section: 'dead-letters', main };
}

/** What of an accepted payment waits must go on; anything else may be left where it is. */
function actsOn(asked: string): readonly ActName[] {
  try {
    dismissableOf(parseDeadLetterId(asked));
    return bothActs;
  } catch (error) {
    if (error instanceof UsageError) return ['dead-letters.redrive'];
    throw error;
  }
}

async function letterIn({ config, database }: Console, { params }: Visit) {
  const asked = params['id'] ?? '';
  const parsed = refusing(() => parseDeadLetterId(asked));
  try {
    const letter = await showDeadLetter(sourcesOf(config, database), parsed);
    if (letter !== undefined) {
      return { asked, letter: { ...maskedIn(letter), id: renderDeadLetterId(parsed) } };
    }
  } catch (error) {
    throw new Refusal('unavailable', `${away} ${wordsOf(error)}`);
  }
  throw new Refusal(
    'not_found',
    'There is no such dead letter (any more): it may have been redriven meanwhile.',
  );
}

type LetterTable = {
  caption: string;
  letters: readonly DeadLetter[];
  /** What may be done about those that are chosen, where the role allows it. */
  acts: readonly ActName[];
  wanted: Wanted;
};

/** With a form around it, by which those that are chosen are acted on. */
function letterTable({ caption, letters, acts, wanted }: LetterTable, session: Session): Html {
  const isWaiting = wanted === 'waiting';
  const choosable = isWaiting && mayAct(session.role, kindsOfActs[acts[0]!].role);
  const rows = letters
    .slice(0, shownMax)
    .map((each): Shown[] => [
      ...(choosable
        ? [html`<input type="checkbox" name="id" value="${each.id}" aria-label="${each.id}" />`]
        : []),
      time(each.at),
      html`<a href="/dead-letters/${encodeURIComponent(each.id)}">${id(each.id)}</a>`,
      each.partner,
      paymentLink(each.about) ?? each.about,
      each.reason,
      actOn(isWaiting ? each.redriven : each.dismissed),
    ]);
  const more = letters.length - rows.length;
  const heads = [
    ...(choosable ? ['Choose'] : []),
    'Since',
    'Id',
    'Partner',
    'About',
    'Reason',
    isWaiting ? 'Redriven' : 'Dismissed',
  ];
  const shown = table(caption, heads, {
    rows,
    empty: 'There are none.',
  });
  const isActable = choosable && rows.length > 0;
  const most = html`<p class="hint">Choose ${lettersMax} at a time at most.</p>`;
  return html`${isActable ? actForm(session, acts, { inputs: html`${shown} ${most}` }) : shown}
  ${
    more > 0 &&
    html`<p class="note below">${number(more)} more: npm run dead-letters -- list has all.</p>`
  }`;
}

function actOn(act: DeadLetter['redriven']): Html | null {
  return act && html`${time(act.at)} by ${act.by}${act.why !== null && `: ${act.why}`}`;
}
