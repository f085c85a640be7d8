import { openPartnerRegistry, openWebhookDeliveries } from '@triplock/partners';
import { cardNumbersEverywhere, isTxnId, type EventId, maskCardNumbers } from '@triplock/payments';
import { accountsOfOperators, operatorSetting } from '@triplock/providers';
import {
  acknowledgements,
  askAuditor,
  lossOf,
  required,
  describeDismissal,
  describeRedrive,
  dismiss,
  dismissableOf,
  redrive,
  redriveWindow,
  type DismissableId,
  parseDeadLetterId,
  renderDeadLetterId,
  type DeadLetterId,
  refuseWhatCannotBeRedriven,
  sourcesOf,
  findToGiveBack,
  giveBackOne,
  openGiver,
  UnknownOutcomeError,
  type ToDo,
  recordAcknowledgement,
  addPartner,
  endpointIdOf,
  partnerIdOf,
  revokeKey,
  rotateKey,
  rotateSecret,
  setCardNumbers,
  type PartnerWork,
} from '@triplock/inspect';
import { CommandError, timeOf, UsageError, wordsOf, count } from '@triplock/command';
import { breakingActs } from '../break/break-acts.ts';
import type { Config } from '../config.ts';
import type { Acted, Console, KindOfAct, Prepared } from '../console.ts';
import * as json from '../edge/schema.ts';
import { maskedIn } from '../html/shown.ts';

const notTried = 'not tried: a part of the system was away before its turn';

/** What is said of what broke on the way. */
export function outcomeUnknown(error: unknown): string {
  return `a part of the system is away, so this may have been done or not: ${wordsOf(error)}`;
}

function onlyLooks({ INSTANCE_NAME: instance }: Config, setting: string): UsageError {
  return new UsageError(`${setting} is not set: ${instance} only looks`);
}

/** Dead letters of one act: as many as its record can name (48 characters each, 2 000 in all). */
export const lettersMax = 40;

/** How long an audit that a page asks for waits for what is in flight. */
const auditWaitMs = 5_000;

const letters = { ...json.listOf(json.text), minItems: 1, maxItems: lettersMax };
const yesOrNo = (description: string) => ({ ...json.text, enum: ['yes', 'no'], description });

/** Every kind of act, by the functions of the operators' commands. */
export const kindsOfActs = {
  'dead-letters.redrive': {
    label: 'Redrive',
    role: 'operator',
    fields: { id: letters, again: yesOrNo('also what was before') },
    optional: ['again'],
    prepare: prepareRedrive,
  },
  'dead-letters.dismiss': {
    label: 'Dismiss',
    role: 'operator',
    fields: { id: letters },
    prepare: prepareDismissal,
  },
  'webhooks.redeliver': {
    label: 'Redeliver',
    role: 'operator',
    fields: { partner: 'whose', id: 'a webhook-id' },
    prepare: prepareRedelivery,
  },
  'webhooks.redeliver-window': {
    label: 'Redeliver what was given up',
    role: 'operator',
    fields: { partner: 'whose', since: 'made from then on', until: 'before' },
    optional: ['since', 'until'],
    prepare: prepareWindow,
  },
  'audit.run': {
    label: 'Run the audit now',
    role: 'operator',
    fields: {},
    prepare: prepareAudit,
  },
  'losses.acknowledge': {
    label: 'Acknowledge',
    role: 'operator',
    fields: { id: 'the number of the loss' },
    prepare: prepareLoss,
  },
  'payments.give-back': {
    label: 'Give back',
    role: 'admin',
    fields: { id: 'of a card payment that has ended' },
    prepare: prepareGiveBack,
  },
  'partners.add': {
    label: 'Add a partner',
    role: 'admin',
    fields: { partner: 'its name, of a-z, 0-9 and -' },
    prepare: partnerAct(addPartner),
  },
  'partners.rotate-key': {
    label: 'Make a key',
    role: 'admin',
    fields: { partner: 'whose' },
    prepare: partnerAct(rotateKey),
  },
  'partners.revoke-key': {
    label: 'Revoke a key',
    role: 'admin',
    fields: { partner: 'whose', prefix: 'the beginning of the key' },
    prepare: partnerAct((id, fields) => revokeKey(id, prefixIn(fields)), 'prefix'),
  },
  'partners.card-numbers': {
    label: 'Say whether card numbers are allowed',
    role: 'admin',
    fields: { partner: 'whose', allowed: yesOrNo('card numbers in texts') },
    prepare: partnerAct(
      (id, fields) => setCardNumbers(id, isYes(fields, 'allowed') ? cardNumbersEverywhere : []),
      'allowed',
    ),
  },
  'partners.rotate-secret': {
    label: 'Make a new secret',
    role: 'admin',
    fields: { partner: 'whose', endpoint: 'its id', again: yesOrNo('even early') },
    optional: ['again'],
    prepare: partnerAct(
      (id, fields) => rotateSecret(id, endpointIn(fields), whenIn(fields)),
      'endpoint',
    ),
  },
  ...breakingActs,
} as const satisfies Readonly<Record<string, KindOfAct>>;

/** What an act is called, in its path and in the record. */
export type ActName = keyof typeof kindsOfActs;

/** The names of all acts. */
export const actNames = Object.keys(kindsOfActs) as ActName[];

/** @throws UsageError for none, too many, or what is no id of a dead letter. */
function lettersIn(fields: URLSearchParams): DeadLetterId[] {
  const ids = [...new Set(fields.getAll('id'))].map(parseDeadLetterId);
  if (ids.length > 0 && ids.length <= lettersMax) return ids;
  throw new UsageError(`choose 1 to ${lettersMax} dead letters`);
}

function prepareRedrive(fields: URLSearchParams): Prepared {
  const ids = lettersIn(fields);
  const again = isAgain(fields);
  return {
    target: [...ids.map(renderDeadLetterId), ...(again ? ['again'] : [])].join(' '),
    async perform(console, { by, why }) {
      const { config } = console;
      refuseWhatCannotBeRedriven(config, ids);
      if (ids.some(({ source }) => source === 'refused')) required(config, 'PUBSUB_PROJECT_ID');
      const sources = sourcesOf(config, operatorsDatabase(console));
      const redriveOne = (id: DeadLetterId) => redrive(sources, id, { by, why, again });
      return actOnEach(console, ids, { act: redriveOne, describe: describeRedrive });
    },
  };
}

function prepareDismissal(fields: URLSearchParams): Prepared {
  const ids = lettersIn(fields).map(dismissableOf);
  return {
    target: ids.map(renderDeadLetterId).join(' '),
    async perform(console, actor) {
      const sources = sourcesOf(console.config, operatorsDatabase(console));
      const dismissOne = (id: DismissableId) => dismiss(sources, id, actor);
      return actOnEach(console, ids, { act: dismissOne, describe: describeDismissal });
    },
  };
}

/** What is done about one dead letter, and what came of it in words. */
type LetterAct<Id, Result> = { act(id: Id): Promise<Result>; describe(result: Result): string };

/**
 * Acts on one dead letter after the other, each with what came of it, whatever came of the others.
 * Where a part broke nobody knows of that one; those behind it are left, or each would wait for it.
 */
async function actOnEach<Id extends DeadLetterId, Result extends { outcome: string }>(
  { logger }: Console,
  ids: readonly Id[],
  { act, describe }: LetterAct<Id, Result>,
): Promise<Acted> {
  const results: { id: string; outcome: string }[] = [];
  const lines: string[] = [];
  const any = (...names: string[]) => results.some(({ outcome }) => names.includes(outcome));
  for (const each of ids) {
    const id = renderDeadLetterId(each);
    const tell = (result: { outcome: string }, text: string) => {
      results.push({ id, ...maskedIn(result) });
      lines.push(`${id}: ${maskCardNumbers(text)}`);
    };
    if (any('unknown')) {
      tell({ outcome: 'not-tried' }, notTried);
      continue;
    }
    try {
      const result = await act(each);
      tell(result, describe(result));
    } catch (error) {
      const isRefused = error instanceof CommandError;
      if (!isRefused) logger.warn({ err: error, letter: id }, 'what became of it is unknown');
      const text = isRefused ? error.message : outcomeUnknown(error);
      tell({ outcome: isRefused ? 'refused' : 'unknown' }, text);
    }
  }
  const outcome = any('unknown')
    ? 'unknown'
    : any('redriven', 'dismissed')
      ? 'done'
      : any('refused')
        ? 'refused'
        : 'nothing';
  return { outcome, detail: lines.join('\n'), result: { results } };
}

function prepareWindow(fields: URLSearchParams): Prepared {
  const partner = partnerIdOf(fields.get('partner') ?? undefined);
  const since = timeOf(fields.get('since') || undefined, { option: 'since' });
  const until = timeOf(fields.get('until') || undefined, { option: 'until' });
  if (since !== undefined && until !== undefined && since >= until) {
    throw new UsageError('until is not after since');
  }
  const window = { partner, ...(since && { since }), ...(until && { until }) };
  const [from, to] = [since, until].map((each) => each?.toISOString() ?? '');
  return {
    target: `${partner} ${from}/${to}`,
    async perform(console, actor) {
      const database = operatorsDatabase(console);
      const redriven = await redriveWindow({ database }, window, actor);
      const detail = `${count(redriven, 'webhook')} of ${partner} given back to the senders`;
      return { outcome: redriven > 0 ? 'done' : 'nothing', detail, result: { redriven } };
    },
  };
}

const deliveryId = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:\.([2-9]|[1-9]\d))?$/;

/** One delivery, whatever became of it: its partner gets it once more, under the same id. */
function prepareRedelivery(fields: URLSearchParams): Prepared {
  const partnerId = partnerIdOf(fields.get('partner') ?? undefined);
  const id = fields.get('id') ?? '';
  const [, eventId, ordinal = '1'] = deliveryId.exec(id) ?? [];
  if (eventId === undefined) throw new UsageError('id must be that of a delivery');
  return {
    target: `${partnerId} ${id}`,
    async perform(console) {
      const deliveries = openWebhookDeliveries(operatorsDatabase(console));
      const asked = { partnerId, eventId: eventId as EventId, ordinal: Number(ordinal) };
      const delivery = await deliveries.redeliver(asked);
      if (delivery === undefined) {
        return { outcome: 'nothing', detail: `${partnerId} has no such delivery`, result: null };
      }
      return { outcome: 'done', detail: `it is ${delivery.state}`, result: delivery };
    },
  };
}

function prepareAudit(): Prepared {
  return {
    target: 'every layer',
    async perform({ config }) {
      const { AUDITOR_URL: auditorUrl } = required(config, 'AUDITOR_URL');
      const report = await askAuditor({
        auditorUrl,
        waitMs: auditWaitMs,
        signal: AbortSignal.timeout(60_000),
        progress: () => undefined,
      });
      const found = report.drift.map(({ check, ids }) => `${check}: ${ids.join(' ')}`);
      const detail = report.ok ? 'no drift' : ['drift', ...found].join('\n');
      return { outcome: 'done', detail, result: report };
    },
  };
}

function prepareLoss(fields: URLSearchParams): Prepared {
  const { id, loss } = lossOf(fields.get('id') ?? '');
  return {
    target: id,
    async perform(console, actor) {
      const outcome = await recordAcknowledgement(operatorsDatabase(console), loss, actor);
      const isDone = outcome === 'acknowledged';
      const detail = acknowledgements[outcome];
      return { outcome: isDone ? 'done' : 'nothing', detail, result: { id, outcome } };
    },
  };
}

/**
 * Gives back what the provider has of a payment that had ended without it, one intent after the
 * other; those behind one of which nobody knows are left. It is looked at anew, so asked for twice
 * it gives nothing back twice.
 */
function prepareGiveBack(fields: URLSearchParams): Prepared {
  const txnId = fields.get('id')?.toLowerCase() ?? '';
  if (!isTxnId(txnId)) throw new UsageError('id must be that of a payment');
  return {
    target: txnId,
    async perform(console, actor) {
      const { config, database } = console;
      const records = operatorsDatabase(console);
      const giver = openGiver(accountsOfOperators(config), (lacks) => {
        throw onlyLooks(config, lacks.map(operatorSetting).join(' and '));
      });
      const intents: { intentId: string; act: ToDo['act']; outcome: Acted['outcome'] }[] = [];
      const lines: string[] = [];
      const tell = ({ intentId, act }: ToDo, outcome: Acted['outcome'], text: string) => {
        intents.push({ intentId, act, outcome });
        lines.push(maskCardNumbers(text));
      };
      const was = (outcome: Acted['outcome']) => intents.some((each) => each.outcome === outcome);
      try {
        for (const each of await findToGiveBack(database, giver, txnId)) {
          const found = `${each.intentId} ${each.why}`;
          if (each.act === 'none' || was('unknown')) {
            tell(each, 'nothing', each.act === 'none' ? found : `${found}: ${notTried}`);
            continue;
          }
          const acted = await orWhyNot(giveBackOne(records, { giver, txnId }, each, actor));
          tell(each, acted.outcome, acted.why ?? `${found}: done`);
        }
      } catch (error) {
        if (!(error instanceof UnknownOutcomeError)) throw error;
        return { outcome: 'unknown', detail: maskCardNumbers(error.message), result: null };
      }
      const outcome = (['unknown', 'done', 'refused'] as const).find(was) ?? 'nothing';
      const detail =
        lines.length === 0 ? 'the provider has shown no intent of it' : lines.join('\n');
      return { outcome, detail, result: { payment: txnId, intents } };
    },
  };
}

/**
 * What came of giving back one.
 *
 * @throws what says nothing of it, such as a database that is away.
 */
async function orWhyNot(
  given: Promise<void>,
): Promise<{ outcome: 'done' | 'refused' | 'unknown'; why?: string }> {
  try {
    await given;
    return { outcome: 'done' };
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    const isUnknown = error instanceof UnknownOutcomeError;
    return { outcome: isUnknown ? 'unknown' : 'refused', why: error.message };
  }
}

type PartnerAct = (
  id: ReturnType<typeof partnerIdOf>,
  fields: URLSearchParams,
) => (
  registry: ReturnType<typeof openPartnerRegistry>,
  work: PartnerWork,
) => Promise<{ lines: readonly string[]; result: unknown; secret?: string }>;

/**
 * An act on a partner, as its command does it; what the command refuses was found to be so.
 *
 * @param field by which two such acts on one partner differ, besides `again`.
 */
function partnerAct(act: PartnerAct, field?: 'endpoint' | 'allowed' | 'prefix') {
  return (fields: URLSearchParams): Prepared => {
    const id = partnerIdOf(fields.get('partner') ?? undefined);
    const acting = act(id, fields);
    return {
      target: `${id} ${differing(id, field, fields)} ${isAgain(fields) ? 'again' : ''}`.trim(),
      async perform({ config, acting: { partners } }, actor) {
        if (partners === undefined) {
          throw onlyLooks(config, 'PARTNERS_DATABASE_URL');
        }
        const registry = openPartnerRegistry(partners);
        const work = { config, database: partners, actor: () => actor };
        const { lines, result, secret } = await acting(registry, work);
        const detail = lines.filter((line) => line !== secret).join(' ');
        return { outcome: 'done', detail, result, ...(secret !== undefined && { secret }) };
      },
    };
  };
}

/** Of a key, also of a whole one or of another partner's, no more than may be shown. */
function differing(id: string, field: string | undefined, fields: URLSearchParams) {
  const value = (field && fields.get(field)) ?? '';
  if (field !== 'prefix') return value;
  return value.slice(0, (value.startsWith(`tl_${id}_`) ? `tl_${id}_`.length : 0) + 6);
}

const endpointIn = (fields: URLSearchParams) => endpointIdOf(fields.get('endpoint') ?? undefined);

/** While two secrets sign only who says so rotates once more. */
const whenIn = (fields: URLSearchParams) => {
  return isAgain(fields) ? ('even-early' as const) : ('rested' as const);
};

/** @throws UsageError for any other word, such as the `true` of a program. */
function isYes(fields: URLSearchParams, name: string, unsaid?: 'no'): boolean {
  const word = fields.get(name) ?? unsaid;
  if (word === 'yes' || word === 'no') return word === 'yes';
  throw new UsageError(`${name} must be "yes" or "no"`);
}

const isAgain = (fields: URLSearchParams) => isYes(fields, 'again', 'no');

function prefixIn(fields: URLSearchParams): string {
  const prefix = fields.get('prefix') ?? '';
  if (prefix.length >= 4 && prefix.length <= 100) return prefix;
  throw new UsageError('prefix must be the beginning of a key, of 4 characters or more');
}

/** @throws UsageError where the console was given no role to act by. */
function operatorsDatabase({ config, acting: { operator } }: Console) {
  if (operator !== undefined) return operator;
  throw onlyLooks(config, 'OPERATOR_DATABASE_URL');
}
