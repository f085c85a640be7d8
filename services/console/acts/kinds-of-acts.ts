import { keyScopes } from '@triplock/contracts';
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
  keyScopeOf,
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
import type { Console } from '../console.ts';
import { act, type Acted, type KindOfAct, type Prepared } from './kind-of-act.ts';
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

const letters = {
  ...json.listOf(json.sent('the id of a dead letter')),
  minItems: 1,
  maxItems: lettersMax,
  description: `1 to ${lettersMax} ids of dead letters`,
};
const yesOrNo = (what: string) => json.choice(['yes', 'no'], `yes or no: ${what}`);
const partner = json.sent('the name of a partner, of a-z, 0-9 and -');

/** A webhook-id, and which of its event's from the second on. */
const deliveryId = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:\.([2-9]|[1-9][0-9]))?$/;

/** Every kind of act, by the functions of the operators' commands. */
export const kindsOfActs = {
  'dead-letters.redrive': act({
    label: 'Redrive',
    role: 'operator',
    fields: { id: letters, again: json.optional(yesOrNo('also what was before')) },
    prepare: prepareRedrive,
  }),
  'dead-letters.dismiss': act({
    label: 'Dismiss',
    role: 'operator',
    fields: { id: letters },
    prepare: prepareDismissal,
  }),
  'webhooks.redeliver': act({
    label: 'Redeliver',
    role: 'operator',
    fields: { partner, id: json.sent('the webhook-id of a delivery of theirs', deliveryId.source) },
    prepare: prepareRedelivery,
  }),
  'webhooks.redeliver-window': act({
    label: 'Redeliver what was given up',
    role: 'operator',
    fields: {
      partner,
      since: json.optional(json.sent('a time: what was made from then on')),
      until: json.optional(json.sent('a time: what was made before')),
    },
    prepare: prepareWindow,
  }),
  'audit.run': act({
    label: 'Run the audit now',
    role: 'operator',
    fields: {},
    prepare: prepareAudit,
  }),
  'losses.acknowledge': act({
    label: 'Acknowledge',
    role: 'operator',
    fields: { id: json.sent('the number of a loss') },
    prepare: prepareLoss,
  }),
  'payments.give-back': act({
    label: 'Give back',
    role: 'admin',
    fields: { id: json.sent('the id of a card payment that has ended') },
    prepare: prepareGiveBack,
  }),
  'partners.add': act({
    label: 'Add a partner',
    role: 'admin',
    fields: { partner },
    prepare: partnerAct(addPartner),
  }),
  'partners.rotate-key': act({
    label: 'Make a key',
    role: 'admin',
    fields: {
      partner,
      scope: json.optional(json.choice(keyScopes, 'what the key is for; full without it')),
    },
    prepare: partnerAct((id, { scope = 'full' }) => rotateKey(id, { scope: keyScopeOf(scope) })),
  }),
  'partners.revoke-key': act({
    label: 'Revoke a key',
    role: 'admin',
    fields: {
      partner,
      prefix: {
        ...json.sent('the first 4 to 100 characters of the key'),
        minLength: 4,
        maxLength: 100,
      },
    },
    prepare: partnerAct((id, { prefix = '' }) => revokeKey(id, prefix), 'prefix'),
  }),
  'partners.card-numbers': act({
    label: 'Say whether card numbers are allowed',
    role: 'admin',
    fields: { partner, allowed: yesOrNo('card numbers in texts') },
    prepare: partnerAct(
      (id, { allowed }) => setCardNumbers(id, allowed === 'yes' ? cardNumbersEverywhere : []),
      'allowed',
    ),
  }),
  'partners.rotate-secret': act({
    label: 'Make a new secret',
    role: 'admin',
    fields: {
      partner,
      endpoint: json.sent('the id of an endpoint'),
      again: json.optional(yesOrNo('even early')),
    },
    prepare: partnerAct(
      // While two secrets sign only who says so rotates once more.
      (id, { endpoint, again }) =>
        rotateSecret(id, endpointIdOf(endpoint), again === 'yes' ? 'even-early' : 'rested'),
      'endpoint',
    ),
  }),
  ...breakingActs,
} as const satisfies Readonly<Record<string, KindOfAct>>;

/** What an act is called, in its path and in the record. */
export type ActName = keyof typeof kindsOfActs;

/** The names of all acts. */
export const actNames = Object.keys(kindsOfActs) as ActName[];

/** @throws UsageError for what is no id of a dead letter. */
const lettersIn = (ids: readonly string[]) => [...new Set(ids)].map(parseDeadLetterId);

function prepareRedrive({ id, again }: { id: string[]; again?: 'yes' | 'no' }): Prepared {
  const ids = lettersIn(id);
  const isAgain = again === 'yes';
  return {
    target: [...ids.map(renderDeadLetterId), ...(isAgain ? ['again'] : [])].join(' '),
    async perform(console, { by, why }) {
      const { config } = console;
      refuseWhatCannotBeRedriven(config, ids);
      if (ids.some(({ source }) => source === 'refused')) required(config, 'PUBSUB_PROJECT_ID');
      const sources = sourcesOf(config, operatorsDatabase(console));
      const redriveOne = (each: DeadLetterId) =>
        redrive(sources, each, { by, why, again: isAgain });
      return actOnEach(console, ids, { act: redriveOne, describe: describeRedrive });
    },
  };
}

function prepareDismissal({ id }: { id: string[] }): Prepared {
  const ids = lettersIn(id).map(dismissableOf);
  return {
    target: ids.map(renderDeadLetterId).join(' '),
    async perform(console, actor) {
      const sources = sourcesOf(console.config, operatorsDatabase(console));
      const dismissOne = (each: DismissableId) => dismiss(sources, each, actor);
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

function prepareWindow(asked: { partner: string; since?: string; until?: string }): Prepared {
  const partner = partnerIdOf(asked.partner);
  const since = timeOf(asked.since, { option: 'since' });
  const until = timeOf(asked.until, { option: 'until' });
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

/** One delivery, whatever became of it: its partner gets it once more, under the same id. */
function prepareRedelivery({ partner, id }: { partner: string; id: string }): Prepared {
  const partnerId = partnerIdOf(partner);
  const [, eventId, ordinal = '1'] = deliveryId.exec(id) ?? [];
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

function prepareLoss(asked: { id: string }): Prepared {
  const { id, loss } = lossOf(asked.id);
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
function prepareGiveBack({ id }: { id: string }): Prepared {
  const txnId = id.toLowerCase();
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

/** What an act on a partner asks for, each for what it is. */
type AskedOfPartner = { partner: string; again?: string; scope?: string } & Partial<
  Record<'prefix' | 'allowed' | 'endpoint', string>
>;

type PartnerAct = (
  id: ReturnType<typeof partnerIdOf>,
  asked: AskedOfPartner,
) => (
  registry: ReturnType<typeof openPartnerRegistry>,
  work: PartnerWork,
) => Promise<{ lines: readonly string[]; result: unknown; secret?: string }>;

/**
 * An act on a partner, as its command does it; what the command refuses was found to be so.
 *
 * @param field by which two such acts on one partner differ, besides `again`.
 */
function partnerAct(prepare: PartnerAct, field?: 'endpoint' | 'allowed' | 'prefix') {
  return (asked: AskedOfPartner): Prepared => {
    const id = partnerIdOf(asked.partner);
    const acting = prepare(id, asked);
    const again = asked.again === 'yes' ? 'again' : '';
    return {
      target: `${id} ${differing(id, field, asked)} ${again}`.trim(),
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
function differing(
  id: string,
  field: 'endpoint' | 'allowed' | 'prefix' | undefined,
  asked: AskedOfPartner,
) {
  const value = (field && asked[field]) ?? '';
  if (field !== 'prefix') return value;
  return value.slice(0, (value.startsWith(`tl_${id}_`) ? `tl_${id}_`.length : 0) + 6);
}

/** @throws UsageError where the console was given no role to act by. */
function operatorsDatabase({ config, acting: { operator } }: Console) {
  if (operator !== undefined) return operator;
  throw onlyLooks(config, 'OPERATOR_DATABASE_URL');
}
