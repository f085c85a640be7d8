import { CommandError } from '@triplock/command';
import { kindsOfActs, outcomeUnknown, type ActName } from './kinds-of-acts.ts';
import { Refusal, type Console, type Visit } from '../console.ts';
import type { Acted, AskedOfAll } from './kind-of-act.ts';
import * as json from '../edge/schema.ts';
import { beginAct, finishAct, type RecordedAct, type ActOutcome } from '@triplock/inspect';

/** What came of asking for an act. */
export type AskedAct =
  | ({ outcome: Exclude<ActOutcome, 'begun'>; id: bigint; detail: string } & Pick<
      Acted,
      'secret' | 'result'
    >)
  /** The same form was sent before, for the same, and began that act. */
  | { outcome: 'asked-before'; id: bigint };

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
  const { reason: why, form: given, ...asked } = visit.asked as AskedOfAll;
  // Of a button that has a field already, its form is in its address.
  const form = given ?? visit.query.get('form') ?? crypto.randomUUID();
  if (!formId.test(form)) throw new Refusal('invalid_request', 'form must be a UUID.');
  const prepared = refusing(() => kindsOfActs[name].prepare(asked));
  if (prepared.target.length > targetMax) {
    throw new Refusal('invalid_request', 'That is too much for one act: choose less.');
  }
  const { operator: by, role } = visit.session;
  const begun = await beginAct(console.records, { form, act: name, by, role, why, ...prepared });
  const { id } = begun;
  if (begun.outcome === 'other-act') {
    throw new Refusal(
      'form_reused',
      `This form began act ${id}, on something else or by somebody else, so nothing was done now: open the page anew, or choose another form.`,
    );
  }
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
    return { outcome: 'unknown' as const, detail: outcomeUnknown(error), result: null };
  }
}

/**
 * What a command says about its words, a request is told about its fields.
 *
 * @throws Refusal with that.
 */
export function refusing<Value>(read: () => Value): Value {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    throw new Refusal('invalid_request', error.message);
  }
}

const outcomes = ['done', 'nothing', 'refused', 'unknown'];

/** An act as it is recorded. */
export const actSchema = json.shapeOf<RecordedAct>('Act', {
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
});

/** What programs are told came of what they asked. */
export const askedActSchema = json.named<AskedAct>('AskedAct', {
  oneOf: [
    json.object({
      id: json.whole,
      outcome: { enum: outcomes },
      detail: json.text,
      result: { description: 'what came of it, by the kind of act' },
      secret: json.optional({ type: 'string', description: 'shown this once, and stored nowhere' }),
    }),
    json.object({ id: json.whole, outcome: { const: 'asked-before' } }),
  ],
});
