import { loadStatements, type Queryable } from '@triplock/postgres';
import { wordsOf, CommandError } from '../command.ts';
import { kindsOfActs, type ActName } from './kinds-of-acts.ts';
import { Refusal, type Acted, type Console, type Visit } from './console.ts';
import * as json from './schema.ts';
import { masked } from './shown.ts';
import { words } from './words.ts';

const say = words.acts;

const sql = loadStatements(import.meta.url, 'acts.sql', [
  'beginAct',
  'finishAct',
  'findByForm',
  'listActs',
]);

/**
 * What is known of an act. `begun`: it is under way, or the console ended in the middle of it;
 * `nothing`: there was nothing to do; `refused`: it was found to make no sense; `unknown`: a part
 * broke while it was under way, and it may have been done or not.
 */
export type ActOutcome = 'begun' | 'done' | 'nothing' | 'refused' | 'unknown';

/** An act as it is recorded. */
export type RecordedAct = {
  id: bigint;
  act: string;
  target: string;
  by: string;
  role: string;
  why: string;
  begunAt: Date;
  outcome: ActOutcome;
  /** What came of it, in words. */
  detail: string;
  finishedAt: Date | null;
};

/** What came of asking for an act. */
export type AskedAct =
  | ({ outcome: Exclude<ActOutcome, 'begun'>; id: bigint; detail: string } & Pick<
      Acted,
      'secret' | 'result'
    >)
  /** The same form was sent before, for the same, and began that act. */
  | { outcome: 'asked-before'; id: bigint };

const whyMax = 500;
const targetMax = 2_000;
const formId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * Does an act for whoever asks, once per form: it is recorded as begun, and committed, before
 * anything is done, and finished with what came of it.
 *
 * - Dying between the record and the end of the act leaves it `begun`, so that nobody knows more:
 *   each kind is harmless to ask for again, or says by its own record what it did.
 * - Dying after it and before the record of its end leaves the same.
 * - Of one form that comes twice, also at once, the second finds the first's record.
 *
 * @throws Refusal before anything is recorded when a field is missing or malformed, or when the
 * form began another act, one on something else, or somebody else's.
 */
export async function runAct(console: Console, name: ActName, visit: Visit): Promise<AskedAct> {
  const { fields, session } = visit;
  const kind = kindsOfActs[name];
  const why = reasonIn(fields);
  // Of a button that has a field already, its form is in its address.
  const form = fields.get('form') ?? visit.query.get('form') ?? crypto.randomUUID();
  if (!formId.test(form)) throw new Refusal('invalid_request', say.badForm);
  const prepared = refusing(() => kind.prepare(fields));
  if (prepared.target.length > targetMax) {
    throw new Refusal('invalid_request', say.tooMuch);
  }
  const { operator: by, role } = session;
  const begun = await beginAct(console.records, { form, act: name, by, role, why, ...prepared });
  const { id } = begun;
  if (begun.outcome === 'other-act') throw new Refusal('form_reused', say.otherAct(id));
  if (begun.outcome === 'asked-before') return { outcome: begun.outcome, id };
  await console.crashPoints.reached('console.act-begun');
  const acted = await perform(console, name, () => prepared.perform(console, { by, why }));
  const { outcome, detail } = acted;
  console.metrics.acts.inc({ kind: name, outcome });
  await console.crashPoints.reached('console.acted');
  await finishAct(console.records, { id, outcome, detail });
  return { ...acted, id };
}

/** What is said of an act that was cut off, or of which a part broke. */
async function perform(console: Console, name: ActName, work: () => Promise<Acted>) {
  try {
    return await work();
  } catch (error) {
    if (error instanceof CommandError || error instanceof Refusal) {
      return { outcome: 'refused' as const, detail: error.message, result: null };
    }
    console.logger.warn({ err: error, act: name }, 'what became of an act is unknown');
    return { outcome: 'unknown' as const, detail: say.partAway(wordsOf(error)), result: null };
  }
}

function reasonIn(fields: URLSearchParams): string {
  const why = (fields.get('reason') ?? '').trim().toWellFormed();
  if (why === '') throw new Refusal('invalid_request', say.noReason);
  if (why.length > whyMax) {
    throw new Refusal('invalid_request', say.longReason(whyMax));
  }
  return why;
}

/** What a command says about its words, a form says about its fields. */
function refusing<Value>(read: () => Value): Value {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    throw new Refusal('invalid_request', error.message);
  }
}

/** An act that begins. */
type Begun = { form: string; act: string; target: string; by: string; role: string; why: string };

/** Records that an act begins, unless its form began one before: the same, or another one. */
export async function beginAct(
  database: Queryable,
  { form, act, target, by, role, why }: Begun,
): Promise<{ outcome: 'begun' | 'asked-before' | 'other-act'; id: bigint }> {
  const values = [form, act, target, by, role, why];
  const [begun] = await database.query<{ id: bigint }>(sql.beginAct, values);
  if (begun !== undefined) return { outcome: 'begun', id: begun.id };
  const asked = [form, act, target, by];
  const [before] = await database.query<{ id: bigint; isSame: boolean }>(sql.findByForm, asked);
  return { outcome: before!.isSame ? 'asked-before' : 'other-act', id: before!.id };
}

/** Records how an act ended. */
export async function finishAct(
  database: Queryable,
  { id, outcome, detail }: Pick<RecordedAct, 'id' | 'outcome' | 'detail'>,
): Promise<void> {
  await database.query(sql.finishAct, [id, outcome, detail]);
}

/** Which acts to list: of one kind, target or person, those before an act; newest first. */
export type ActQuestion = {
  before?: bigint;
  act?: string;
  target?: string;
  by?: string;
  limit: number;
};

/** Acts by pages and the API, and acts on operators; what people wrote without card numbers. */
export async function listActs(
  database: Queryable,
  { before, act, target, by, limit }: ActQuestion,
): Promise<RecordedAct[]> {
  const asked = [before, target, by, act, limit];
  const rows = await database.query<RecordedAct>(sql.listActs, asked);
  return rows.map((row) => ({ ...row, why: masked(row.why) }));
}

/** The act of this number; `undefined` when there is none. */
export async function findAct(database: Queryable, id: bigint): Promise<RecordedAct | undefined> {
  const [act] = await listActs(database, { before: id + 1n, limit: 1 });
  return act?.id === id ? act : undefined;
}

const outcomes = ['done', 'nothing', 'refused', 'unknown'];

/** What of acts is given to programs. */
export const actSchemas: json.Schemas = {
  Acts: json.object({ data: json.listOf(json.ref('Act')), has_more: json.flag }),
  Act: json.shapeOf<RecordedAct>({
    id: json.whole,
    act: json.text,
    target: json.text,
    by: json.text,
    role: json.text,
    why: json.text,
    begunAt: json.time,
    outcome: { enum: ['begun', ...outcomes] },
    detail: json.text,
    finishedAt: json.orNull(json.time),
  }),
  AskedAct: {
    oneOf: [
      json.object(
        {
          id: json.whole,
          outcome: { enum: outcomes },
          detail: json.text,
          result: { description: 'what came of it, by the kind of act' },
          secret: { type: 'string', description: 'shown this once, and stored nowhere' },
        },
        ['secret'],
      ),
      json.object({ id: json.whole, outcome: { const: 'asked-before' } }),
    ],
  },
};
