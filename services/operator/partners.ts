import {
  atAddress,
  addPartner,
  partnerIdOf,
  required,
  allowedIn,
  revokeKey,
  type Caller,
  rotateSecret,
  type Config,
  rotateKey,
  setCardNumbers,
  type PartnerActDone,
  whoActs,
  type PartnerWork,
  operatorFor,
  endpointIdOf,
  keyScopeOf,
} from '@triplock/inspect';
import {
  CommandError,
  oneOf,
  openTerminal,
  runCommand,
  isMissing,
  timeOf,
  UsageError,
} from '@triplock/command';
import {
  openPartnerRegistry,
  type KeyWishes,
  type ListedKey,
  type ListedPartner,
  type PartnerRegistry,
} from '@triplock/partners';
import {
  cardNumberFields,
  cardNumbersEverywhere,
  isCardNumberField,
  type PartnerId,
  type CardNumbersIn,
} from '@triplock/payments';
import { openForCommand } from '@triplock/postgres';
const help = `
npm run partners -- list
npm run partners -- log [ID]
npm run partners -- add ID
npm run partners -- rotate-key ID [--scope full|read|pay] [--expires TIME]
npm run partners -- revoke-key ID KEYPREFIX
npm run partners -- card-numbers ID allowed|refused|FIELD[,FIELD]
npm run partners -- rotate-secret ID ENDPOINT [--again]
npm run partners -- reseal-secrets

Manages the partners of a running system, their API keys and webhook secrets. A key is stored as a hash and shown
once, when it is made. rotate-key makes a new one, valid at once, beside the others: for everything,
or with --scope read for every GET, with --scope pay for payments and what follows them alone; with
--expires until then; revoke-key ends the one that begins with KEYPREFIX, within 5 s. card-numbers
says whether what a partner sends may look like the numbers of payment cards, which else is a 400:
everywhere, nowhere, or in some of idempotency-key, reference, description, reason, metadata and
single values of it as metadata.NAME; allow it only where it is certain that none is one, since it is
kept and passed on; gateways know within 5 s. rotate-secret gives one of a partner's webhook
endpoints a new secret, shown once; the one before it signs too for 24 hours, and
meanwhile only --again rotates once more, which ends it. reseal-secrets seals every webhook secret with
the newest of WEBHOOK_KEYS, so that the others may go; broken off, it goes on where it was. Each act
is recorded with who and why, and log shows them, partners' own too. Exit code 1 when nothing was
done, 2 when the system is not up.

  --by NAME      who you are; the user of this machine outside production
  --reason TEXT  why; production wants it
  --scope SCOPE  of rotate-key: what the new key is for
  --expires TIME of rotate-key: when it ends, within five years; by default it does not
  --home DIR   the instance on this machine (.triplock)
  --json       prints the partners, the acts, or { id, apiKey }, { id, revoked },
               { resealed, apiKeysLeft }, { id, cardNumbersIn }, { id, endpoint, secret, previousSecretUntil }
  --help

PARTNERS_DATABASE_URL  the database of a system that is not on this machine, as triplock_partners
WEBHOOK_KEYS_FILE      for rotate-secret and reseal-secrets: the file of the keys, the newest first
`;

/** What an action came to: for people, and for machines. `secret` is in both, and shown once. */
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
        scope: { type: 'string' },
        expires: { type: 'string' },
      },
      wordsMax: 3,
      run: async ({ values, words, interrupted }) => {
        const action = actionOf(words, { again: values.again ?? false, ...wishesOf(values) });
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
function actionOf(
  [verb, ...given]: readonly string[],
  { again, wishes }: { again: boolean; wishes?: KeyWishes },
) {
  const act = oneOf(verb, { what: 'an act', words: Object.keys(acts) as (keyof typeof acts)[] });
  const takes: readonly string[] = acts[act];
  const usage = ['npm run partners --', act, ...takes].join(' ');
  const lacking = takes.slice(given.length).find((word) => !word.startsWith('['));
  if (lacking !== undefined) throw isMissing(lacking, usage);
  const extra = given[takes.length];
  if (extra !== undefined) throw new UsageError(`unexpected argument '${extra}': ${usage}`);
  if (wishes !== undefined && act !== 'rotate-key') {
    throw new UsageError('--scope and --expires are of rotate-key alone');
  }
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
      return rotateKey(partnerIdOf(id), wishes);
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

/** What is asked of a new key; nothing when nothing is. @throws UsageError */
function wishesOf({ scope, expires }: { scope?: string; expires?: string }) {
  const expiresAt = timeOf(expires, { option: 'expires' });
  if (scope === undefined && expiresAt === undefined) return {};
  const wishes: KeyWishes = {
    ...(scope !== undefined && { scope: keyScopeOf(scope) }),
    ...(expiresAt && { expiresAt }),
  };
  return { wishes };
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

async function list(registry: PartnerRegistry): Promise<PartnerActDone> {
  const partners = await registry.list();
  return { lines: partners.flatMap(render), result: partners };
}

function render({ id, cardNumbersIn, keys }: ListedPartner): string[] {
  const rows = keys.map((key) => {
    const { prefix, scope, createdAt, lastUsedAt } = key;
    const shown = (prefix ?? '(beginning not kept)').padEnd(30);
    const used = lastUsedAt === null ? 'never used' : `last used ${lastUsedAt.toISOString()}`;
    return `  ${shown} ${scope}  ${createdAt.toISOString()}  ${stateOf(key)}, ${used}`;
  });
  if (cardNumbersIn.length === 0) return [id, ...rows];
  return [`${id}  (card numbers ${allowedIn(cardNumbersIn)})`, ...rows];
}

function stateOf({ expiresAt, revokedAt }: ListedKey): string {
  if (revokedAt !== null) return `revoked ${revokedAt.toISOString()}`;
  if (expiresAt === null) return 'good';
  return `${expiresAt > new Date() ? 'good until' : 'expired'} ${expiresAt.toISOString()}`;
}

function log(id: PartnerId | undefined) {
  return async (registry: PartnerRegistry): Promise<PartnerActDone> => {
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
): Promise<PartnerActDone> {
  const { WEBHOOK_KEYS: keys } = required(config, 'WEBHOOK_KEYS');
  const { resealed, unreadable, apiKeysLeft } = await registry.resealSecrets(keys, actor());
  if (unreadable.length > 0) {
    const done = `sealed those of ${resealed} partners with ${keys.newest}`;
    throw new CommandError([done, ...unreadable.map(({ why }) => why)].join('\n'));
  }
  const next =
    apiKeysLeft === 0
      ? `nothing is sealed with another key than ${keys.newest} any more`
      : `no webhook secret is sealed with another key than ${keys.newest} any more; ${apiKeysLeft} new API ` +
        'keys are, until they are used, for a day at most: without the other key no retry shows them';
  const lines = [`sealed the secrets of ${resealed} partners`, next];
  return { lines, result: { resealed, apiKeysLeft } };
}
