import { randomUUID } from 'node:crypto';
import {
  type ListedPartner,
  openPartnerRegistry,
  type PartnerActor,
  type PartnerRegistry,
  rotateSecretAs,
} from '@triplock/partners';
import {
  cardNumberFields,
  type CardNumbersIn,
  cardNumbersEverywhere,
  type EndpointId,
  type IdempotencyKey,
  isCardNumberField,
  isExemptEverywhere,
  type PartnerId,
} from '@triplock/payments';
import { type Database, openForCommand } from '@triplock/postgres';
import { CommandError, isMissing, oneOf, runCommand, UsageError } from './command.ts';
import { required, type Config } from './config.ts';
import { atAddress, operatorFor, type Caller } from './operator.ts';
import { whoActs } from './operator-acts.ts';
import { openTerminal } from './terminal.ts';

const help = `
npm run partners -- list
npm run partners -- log [ID]
npm run partners -- add ID
npm run partners -- rotate-key ID
npm run partners -- revoke-key ID KEYPREFIX
npm run partners -- card-numbers ID allowed|refused|FIELD[,FIELD]
npm run partners -- rotate-secret ID ENDPOINT [--again]
npm run partners -- reseal-secrets

Manages the partners of a running system, their API keys and webhook secrets. A key is stored as a hash and shown
once, when it is made. rotate-key makes a new one, valid at once, beside the others; revoke-key
ends the one that begins with KEYPREFIX, within 5 s. card-numbers says whether what a partner sends
may look like the numbers of payment cards, which else is a 400: everywhere, nowhere, or in some of
idempotency-key, reference, description, reason, metadata and single values of it as metadata.NAME;
allow it only where it is certain that none is one, since it is kept and passed on; gateways know
within 5 s. rotate-secret gives one of
a partner's webhook endpoints a new secret, shown once; the one before it signs too for 24 hours, and
meanwhile only --again rotates once more, which ends it. reseal-secrets seals every webhook secret with
the newest of WEBHOOK_KEYS, so that the others may go; broken off, it goes on where it was. Each act
is recorded with who and why, and log shows them, partners' own too. Exit code 1 when nothing was
done, 2 when the system is not up.

  --by NAME      who you are; the user of this machine outside production
  --reason TEXT  why; production wants it
  --home DIR   the instance on this machine (.triplock)
  --json       prints the partners, the acts, or { id, apiKey }, { id, revoked }, { resealed },
               { id, cardNumbersIn }, { id, endpoint, secret, previousSecretUntil }
  --help

PARTNERS_DATABASE_URL  the database of a system that is not on this machine, as triplock_partners
WEBHOOK_KEYS_FILE      for rotate-secret and reseal-secrets: the file of the keys, the newest first
`;

/** What an action came to: for people, and for machines. `secret` is in both, and shown once. */
type Outcome = { lines: readonly string[]; result: unknown; secret?: string };

/** `partners`: manages partners and their API keys. */
export function partners(caller: Caller): Promise<void> {
  return runCommand(
    {
      name: 'partners',
      help,
      options: {
        json: { type: 'boolean' },
        by: { type: 'string' },
        reason: { type: 'string' },
        again: { type: 'boolean' },
      },
      wordsMax: 3,
      run: async ({ values, words, interrupted }) => {
        const action = actionOf(words, values.again ?? false);
        const terminal = openTerminal({ json: values.json ?? false });
        const { config, diagnose } = await operatorFor(caller, { terminal, signal: interrupted() });
        const { PARTNERS_DATABASE_URL: url } = required(config, 'PARTNERS_DATABASE_URL');
        const broken = await diagnose(['postgres']);
        if (broken.length > 0) throw new CommandError(broken.join('\n'));
        const database = openForCommand({ url, applicationName: 'partners', connectionsMax: 1 });
        const actor = () => actorOf(values, config);
        const work: PartnerWork = { config, database, actor };
        const { lines, result } = await atAddress(url, () =>
          action(openPartnerRegistry(database), work),
        ).finally(() => database.close());
        for (const line of lines) terminal.line(line);
        terminal.result(result);
      },
    },
    caller.args,
  );
}

/** Where an action works, and looks up who acts, should it be one that is recorded. */
export type PartnerWork = { config: Config; database: Database; actor: () => PartnerActor };

/**
 * Who acts and why.
 *
 * @throws UsageError in production when either is not given: the user of a machine is nobody there.
 */
function actorOf(given: { by?: string; reason?: string }, { TRIPLOCK_MODE: mode }: Config) {
  const why = given.reason?.trim() || null;
  const isNamed = given.by !== undefined && why !== null;
  if (mode === 'production' && !isNamed) {
    const what = given.by === undefined ? '--by' : '--reason';
    throw isMissing(what, 'who you are and why, as --by NAME --reason TEXT');
  }
  return { by: whoActs(given.by), why };
}

/** Every act, with the words that it takes. */
const acts = {
  list: [],
  log: ['[ID]'],
  add: ['ID'],
  'rotate-key': ['ID'],
  'revoke-key': ['ID', 'KEYPREFIX'],
  'card-numbers': ['ID', 'allowed|refused|FIELD[,FIELD]'],
  'rotate-secret': ['ID', 'ENDPOINT'],
  'reseal-secrets': [],
} as const;

/** @throws UsageError before anything is opened when the words make no action. */
function actionOf([verb, ...given]: readonly string[], again: boolean) {
  const act = oneOf(verb, { what: 'an act', words: Object.keys(acts) as (keyof typeof acts)[] });
  const takes: readonly string[] = acts[act];
  const usage = ['npm run partners --', act, ...takes].join(' ');
  const lacking = takes.slice(given.length).find((word) => !word.startsWith('['));
  if (lacking !== undefined) throw isMissing(lacking, usage);
  const extra = given[takes.length];
  if (extra !== undefined) throw new UsageError(`unexpected argument '${extra}': ${usage}`);
  const [id, word = ''] = given;
  switch (act) {
    case 'list':
      return list;
    case 'log':
      return log(id === undefined ? undefined : partnerIdOf(id));
    case 'reseal-secrets':
      return resealSecrets;
    case 'add':
      return addPartner(partnerIdOf(id));
    case 'rotate-key':
      return rotateKey(partnerIdOf(id));
    case 'revoke-key':
      return revokeKey(partnerIdOf(id), word);
    case 'card-numbers': {
      return setCardNumbers(partnerIdOf(id), cardNumbersInOf(word));
    }
    case 'rotate-secret':
      return rotateSecret(partnerIdOf(id), endpointIdOf(word), again ? 'even-early' : 'rested');
    default:
      return act satisfies never;
  }
}

/** @throws UsageError when the word can be no partner's ID. */
export function partnerIdOf(word: string | undefined): PartnerId {
  if (word !== undefined && /^[a-z0-9][a-z0-9-]{0,62}$/.test(word)) return word as PartnerId;
  throw new UsageError(
    `a partner's ID is 1 to 63 of a-z, 0-9 and "-", not '${word ?? ''}' (npm run partners -- --help)`,
  );
}

/** @throws UsageError when the word is neither all, nothing, nor a list of fields. */
function cardNumbersInOf(word: string): CardNumbersIn {
  if (word === 'allowed') return cardNumbersEverywhere;
  if (word === 'refused') return [];
  const fields = [...new Set(word.split(','))].sort();
  const unknown = fields.find((each) => !isCardNumberField(each));
  if (unknown === undefined && fields.length <= cardNumberFieldsMax) return fields;
  throw new UsageError(
    `card-numbers takes one of allowed, refused, or up to ${cardNumberFieldsMax} of ${cardNumberFields.join(', ')}, metadata.NAME with commas between, not '${unknown ?? word}'`,
  );
}
const cardNumberFieldsMax = 20;

/** @throws UsageError when the word can be no endpoint's ID. */
export function endpointIdOf(word: string | undefined): EndpointId {
  if (word !== undefined && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(word)) {
    return word as EndpointId;
  }
  throw new UsageError(`an endpoint's ID is a UUID, as its partner and the console see it`);
}

async function list(registry: PartnerRegistry): Promise<Outcome> {
  const partners = await registry.list();
  return { lines: partners.flatMap(render), result: partners };
}

function render({ id, cardNumbersIn, keys }: ListedPartner): string[] {
  const rows = keys.map(({ prefix, createdAt, revokedAt }) => {
    const state = revokedAt === null ? 'good' : `revoked ${revokedAt.toISOString()}`;
    return `  ${(prefix ?? '(beginning not kept)').padEnd(30)} ${createdAt.toISOString()}  ${state}`;
  });
  if (cardNumbersIn.length === 0) return [id, ...rows];
  return [`${id}  (card numbers ${allowedIn(cardNumbersIn)})`, ...rows];
}

function allowedIn(fields: CardNumbersIn): string {
  return isExemptEverywhere(fields) ? 'allowed' : `allowed in ${fields.join(', ')}`;
}

/** Makes a partner with its first key, once the registry is there. */
export function addPartner(id: PartnerId) {
  return async (registry: PartnerRegistry, { actor }: PartnerWork): Promise<Outcome> => {
    const added = await registry.add(id, actor());
    if (added.outcome === 'exists') {
      const next = `npm run partners -- rotate-key ${id} gives it one more key`;
      throw new CommandError(`there is a partner ${id} already: ${next}`);
    }
    return newKey(id, added.apiKey);
  };
}

/** Makes one more key. */
export function rotateKey(id: PartnerId) {
  return async (registry: PartnerRegistry, { actor }: PartnerWork): Promise<Outcome> => {
    const added = await registry.addKey(id, actor());
    if (added.outcome === 'no-partner') {
      throw new CommandError(`there is no partner ${id}: npm run partners -- list shows all`);
    }
    const next = 'The keys before it are good until you revoke them: npm run partners -- list';
    const { lines, ...rest } = newKey(id, added.apiKey);
    return { ...rest, lines: [...lines, next] };
  };
}

/** Ends the key that begins with `prefix`. */
export function revokeKey(id: PartnerId, prefix: string) {
  return async (registry: PartnerRegistry, { actor }: PartnerWork): Promise<Outcome> => {
    const { outcome } = await registry.revokeKey(id, prefix, actor());
    switch (outcome) {
      case 'revoked':
        return { lines: ['revoked; refused within 5 s'], result: { id, revoked: true } };
      case 'no-such-key':
        throw new CommandError(
          `no good key of ${id} begins so: npm run partners -- list shows them`,
        );
      case 'several-keys':
        throw new CommandError(`several keys of ${id} begin so: give more of the one you mean`);
    }
  };
}

/** Says where what a partner sends may look like the numbers of payment cards. */
export function setCardNumbers(id: PartnerId, fields: CardNumbersIn) {
  return async (registry: PartnerRegistry, { actor }: PartnerWork): Promise<Outcome> => {
    const { outcome } = await registry.setCardNumbers(id, fields, actor());
    const now = fields.length === 0 ? 'refused' : allowedIn(fields);
    switch (outcome) {
      case 'set':
        return {
          lines: [`what looks like card numbers is ${now} within 5 s`],
          result: { id, cardNumbersIn: fields },
        };
      case 'unchanged':
        throw new CommandError(`what looks like card numbers of ${id} is ${now} already`);
      case 'no-partner':
        throw new CommandError(`there is no partner ${id}`);
    }
  };
}

/**
 * Gives an endpoint a new secret. One whose answer is lost is lost: the next rotation, a day later
 * or `even-early`, makes another.
 */
export function rotateSecret(id: PartnerId, endpoint: EndpointId, when: 'rested' | 'even-early') {
  return async (_: PartnerRegistry, work: PartnerWork): Promise<Outcome> => {
    const { WEBHOOK_KEYS: keys } = required(work.config, 'WEBHOOK_KEYS');
    const key = randomUUID() as string as IdempotencyKey;
    const order = { partnerId: id, id: endpoint, key, actor: work.actor(), when };
    const rotated = await rotateSecretAs(work.database, keys, order);
    switch (rotated.outcome) {
      case 'rotated':
      case 'replayed': {
        const { secret, previousSecretUntil } = rotated;
        const until = previousSecretUntil.toISOString();
        const next = `It is shown this once. The one before it signs too until ${until}.`;
        return {
          lines: [secret, next],
          result: { id, endpoint, secret, previousSecretUntil },
          secret,
        };
      }
      case 'two-sign':
        throw new CommandError(
          `two secrets sign until ${rotated.until.toISOString()}: rotating before then ends the older one, which may be all that the partner's server knows; --again does it`,
        );
      case 'no-endpoint':
        throw new CommandError(`${id} has no such endpoint`);
      default:
        return rotated satisfies never;
    }
  };
}

function log(id: PartnerId | undefined) {
  return async (registry: PartnerRegistry): Promise<Outcome> => {
    const acts = await registry.acts(id);
    const lines = acts.map(({ act, partner, subject, by, why, at }) => {
      const what = [act.padEnd(16), partner, subject ?? ''].join('  ');
      return `${at.toISOString()}  ${what}  by ${by}${why === null ? '' : `: ${why}`}`;
    });
    return { lines, result: acts };
  };
}

async function resealSecrets(
  registry: PartnerRegistry,
  { config, actor }: PartnerWork,
): Promise<Outcome> {
  const { WEBHOOK_KEYS: keys } = required(config, 'WEBHOOK_KEYS');
  const { resealed, unreadable } = await registry.resealSecrets(keys, actor());
  if (unreadable.length > 0) {
    const done = `sealed those of ${resealed} partners with ${keys.newest}`;
    throw new CommandError([done, ...unreadable.map(({ why }) => why)].join('\n'));
  }
  const next = `nothing is sealed with another key than ${keys.newest} any more`;
  return { lines: [`sealed the secrets of ${resealed} partners`, next], result: { resealed } };
}

function newKey(id: PartnerId, apiKey: string): Outcome {
  const lines = [apiKey, 'It is shown this once and cannot be had again.'];
  return { lines, result: { id, apiKey }, secret: apiKey };
}
