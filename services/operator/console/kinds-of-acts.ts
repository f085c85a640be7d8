import { openPartnerRegistry, openWebhookDeliveries } from '@triplock/partners';
import type { EventId } from '@triplock/payments';
import { acknowledgements, askAuditor, lossOf } from '../audit.ts';
import { timeOf, UsageError } from '../command.ts';
import { required } from '../config.ts';
import {
  describeDismissal,
  describeRedrive,
  dismiss,
  dismissableOf,
  redrive,
  redriveWindow,
} from '../dead-letter-acts.ts';
import {
  parseDeadLetterId,
  renderDeadLetterId,
  type DeadLetterId,
} from '../dead-letter-sources.ts';
import { refusePendingInSpanner, sourcesOf } from '../dead-letters.ts';
import { recordAcknowledgement } from '../operator-acts.ts';
import {
  addPartner,
  endpointIdOf,
  partnerIdOf,
  revokeKey,
  rotateKey,
  rotateSecret,
  setCardNumbers,
  type PartnerWork,
} from '../partners.ts';
import { count } from '../terminal.ts';
import { breakingActs } from './break-acts.ts';
import type { Console, Role, Route } from './console.ts';
import { words } from './words.ts';

const say = words.acts;

/** What came of an act: in words, and for programs. A secret is shown once and stored nowhere. */
export type Acted = {
  outcome: 'done' | 'nothing' | 'refused' | 'unknown';
  detail: string;
  result: unknown;
  secret?: string;
};

/** Who acts, and why. */
type Actor = { by: string; why: string };

/** An act whose fields make sense. */
type Prepared = {
  /** What it is done to, as the record of acts names it. */
  target: string;
  perform(console: Console, actor: Actor): Promise<Acted>;
};

/** A kind of act: who may do it, and what its fields say; its label is among the words. */
export type KindOfAct = {
  role: Role;
  /** Where it cannot be done. */
  except?: Route['except'];
  /** The page on which one sees what came of it; its record where there is none. */
  then?: `/${string}`;
  /** @throws CommandError that says what is wrong with the fields. */
  prepare(fields: URLSearchParams): Prepared;
};

/** As many as one page shows. */
const lettersMax = 100;

/** How long an audit that a page asks for waits for what is in flight. */
const auditWaitMs = 5_000;

/** Every kind of act, by the functions of the operators' commands. */
export const kindsOfActs = {
  'dead-letters.redrive': { role: 'operator', prepare: prepareRedrive },
  'dead-letters.dismiss': { role: 'operator', prepare: prepareDismissal },
  'webhooks.redeliver': { role: 'operator', prepare: prepareRedelivery },
  'webhooks.redeliver-window': { role: 'operator', prepare: prepareWindow },
  'audit.run': { role: 'operator', prepare: prepareAudit },
  'losses.acknowledge': { role: 'operator', prepare: prepareLoss },
  'partners.add': { role: 'admin', prepare: partnerAct(addPartner) },
  'partners.rotate-key': { role: 'admin', prepare: partnerAct(rotateKey) },
  'partners.revoke-key': {
    role: 'admin',
    prepare: partnerAct((id, fields) => revokeKey(id, prefixIn(fields))),
  },
  'partners.card-numbers': {
    role: 'admin',
    prepare: partnerAct((id, fields) => setCardNumbers(id, fields.get('allowed') === 'yes')),
  },
  'partners.rotate-secret': {
    role: 'admin',
    prepare: partnerAct((id, fields) => rotateSecret(id, endpointIn(fields), whenIn(fields))),
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
  throw new UsageError(say.chooseLetters(lettersMax));
}

function prepareRedrive(fields: URLSearchParams): Prepared {
  const ids = lettersIn(fields);
  const again = fields.get('again') === 'yes';
  return {
    target: ids.map(renderDeadLetterId).join(' '),
    async perform(console, { by, why }) {
      refusePendingInSpanner(console.config, ids);
      const sources = sourcesOf(console.config, operatorsDatabase(console));
      const results = [];
      for (const each of ids) {
        const id = renderDeadLetterId(each);
        results.push({ id, ...(await redrive(sources, each, { by, why, again })) });
      }
      const detail = results.map((each) => `${each.id}: ${describeRedrive(each)}`).join('\n');
      const isDone = results.some(({ outcome }) => outcome === 'redriven');
      return { outcome: isDone ? 'done' : 'nothing', detail, result: { results } };
    },
  };
}

function prepareDismissal(fields: URLSearchParams): Prepared {
  const ids = lettersIn(fields).map(dismissableOf);
  return {
    target: ids.map(renderDeadLetterId).join(' '),
    async perform(console, actor) {
      const sources = sourcesOf(console.config, operatorsDatabase(console));
      const results = [];
      for (const each of ids) {
        const id = renderDeadLetterId(each);
        results.push({ id, ...(await dismiss(sources, each, actor)) });
      }
      const detail = results.map((each) => `${each.id}: ${describeDismissal(each)}`).join('\n');
      const isDone = results.some(({ outcome }) => outcome === 'dismissed');
      return { outcome: isDone ? 'done' : 'nothing', detail, result: { results } };
    },
  };
}

function prepareWindow(fields: URLSearchParams): Prepared {
  const partner = partnerIdOf(fields.get('partner') ?? undefined);
  const since = timeOf(fields.get('since') || undefined, { option: 'since' });
  const until = timeOf(fields.get('until') || undefined, { option: 'until' });
  if (since !== undefined && until !== undefined && since >= until) {
    throw new UsageError(say.badWindow);
  }
  const window = { partner, ...(since && { since }), ...(until && { until }) };
  const [from, to] = [since, until].map((each) => each?.toISOString() ?? '');
  return {
    target: `${partner} ${from}/${to}`,
    async perform(console, actor) {
      const database = operatorsDatabase(console);
      const redriven = await redriveWindow({ database }, window, actor);
      const detail = say.givenBack(count(redriven, 'webhook'), partner);
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
  if (eventId === undefined) throw new UsageError(say.badDelivery);
  return {
    target: `${partnerId} ${id}`,
    async perform(console) {
      const deliveries = openWebhookDeliveries(operatorsDatabase(console));
      const asked = { partnerId, eventId: eventId as EventId, ordinal: Number(ordinal) };
      const delivery = await deliveries.redeliver(asked);
      if (delivery === undefined) {
        return { outcome: 'nothing', detail: say.noDelivery(partnerId), result: null };
      }
      return { outcome: 'done', detail: say.isNow(delivery.state), result: delivery };
    },
  };
}

function prepareAudit(): Prepared {
  return {
    target: say.everyLayer,
    async perform({ config }) {
      const { AUDITOR_URL: auditorUrl } = required(config, 'AUDITOR_URL');
      const report = await askAuditor({
        auditorUrl,
        waitMs: auditWaitMs,
        signal: AbortSignal.timeout(60_000),
        progress: () => undefined,
      });
      const found = report.drift.map(({ check, ids }) => `${check}: ${ids.join(' ')}`);
      const detail = report.ok ? say.noDrift : [say.drift, ...found].join('\n');
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

type PartnerAct = (
  id: ReturnType<typeof partnerIdOf>,
  fields: URLSearchParams,
) => (
  registry: ReturnType<typeof openPartnerRegistry>,
  work: PartnerWork,
) => Promise<{ lines: readonly string[]; result: unknown; secret?: string }>;

/** An act on a partner, as its command does it; what the command refuses was found to be so. */
function partnerAct(act: PartnerAct) {
  return (fields: URLSearchParams): Prepared => {
    const id = partnerIdOf(fields.get('partner') ?? undefined);
    const acting = act(id, fields);
    return {
      target: [id, fields.get('endpoint') ?? ''].join(' ').trim(),
      async perform({ config, acting: { partners } }, actor) {
        if (partners === undefined) {
          throw new UsageError(say.onlyLooks('PARTNERS_DATABASE_URL', config.INSTANCE_NAME));
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

const endpointIn = (fields: URLSearchParams) => endpointIdOf(fields.get('endpoint') ?? undefined);

/** While two secrets sign only who says so rotates once more. */
const whenIn = (fields: URLSearchParams) => {
  return fields.get('again') === 'yes' ? ('even-early' as const) : ('rested' as const);
};

function prefixIn(fields: URLSearchParams): string {
  const prefix = fields.get('prefix') ?? '';
  if (prefix.length >= 4 && prefix.length <= 100) return prefix;
  throw new UsageError(say.badPrefix);
}

/** @throws UsageError where the console was given no role to act by. */
function operatorsDatabase({ config, acting: { operator } }: Console) {
  if (operator !== undefined) return operator;
  throw new UsageError(say.onlyLooks('OPERATOR_DATABASE_URL', config.INSTANCE_NAME));
}
