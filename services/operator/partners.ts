import { type ListedPartner, openPartnerRegistry, type PartnerRegistry } from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import { openForCommand } from '@triplock/postgres';
import { CommandError, runCommand, UsageError } from './command.ts';
import { required } from './config.ts';
import { atAddress, operatorFor, type Caller } from './operator.ts';
import { openTerminal } from './terminal.ts';

const help = `
npm run partners -- list
npm run partners -- add ID
npm run partners -- rotate-key ID
npm run partners -- revoke-key ID KEYPREFIX

Manages the partners of a running system and their API keys. A key is stored as a hash and shown
once, when it is made. rotate-key makes a new one, valid at once, beside the others; revoke-key
ends the one that begins with KEYPREFIX, within 5 s. Exit code 1 when nothing was done, 2 when the
system is not up.

  --home DIR   the instance on this machine (.triplock)
  --json       prints the partners, or { id, apiKey }, or { id, revoked }
  --help

PARTNERS_DATABASE_URL  the database of a system that is not on this machine, as triplock_partners
`;

/** What an action came to: for people, and for machines. */
type Outcome = { lines: readonly string[]; result: unknown };

/** `partners`: manages partners and their API keys. */
export function partners(caller: Caller): Promise<void> {
  return runCommand(
    {
      name: 'partners',
      help,
      options: { json: { type: 'boolean' } },
      wordsMax: 3,
      run: async ({ values, words, interrupted }) => {
        const action = actionOf(words);
        const terminal = openTerminal({ json: values.json ?? false });
        const { config, diagnose } = await operatorFor(caller, { terminal, signal: interrupted() });
        const { PARTNERS_DATABASE_URL: url } = required(config, 'PARTNERS_DATABASE_URL');
        const broken = await diagnose(['postgres']);
        if (broken.length > 0) throw new CommandError(broken.join('\n'));
        const database = openForCommand({ url, applicationName: 'partners', connectionsMax: 1 });
        const { lines, result } = await atAddress(url, () =>
          action(openPartnerRegistry(database)),
        ).finally(() => database.close());
        for (const line of lines) terminal.line(line);
        terminal.result(result);
      },
    },
    caller.args,
  );
}

/** @throws UsageError before anything is opened when the words make no action. */
function actionOf([verb, id, prefix, ...rest]: readonly string[]) {
  if (rest.length > 0) throw new UsageError('too many arguments (npm run partners -- --help)');
  if (verb === 'list' && id === undefined) return list;
  if (verb === 'add' && prefix === undefined) return add(partnerIdOf(id));
  if (verb === 'rotate-key' && prefix === undefined) return rotateKey(partnerIdOf(id));
  if (verb === 'revoke-key' && prefix !== undefined) return revokeKey(partnerIdOf(id), prefix);
  const wanted = 'list, add ID, rotate-key ID or revoke-key ID KEYPREFIX';
  throw new UsageError(`expected ${wanted} (npm run partners -- --help)`);
}

function partnerIdOf(word: string | undefined): PartnerId {
  if (word !== undefined && /^[a-z0-9][a-z0-9-]{0,62}$/.test(word)) return word as PartnerId;
  throw new UsageError(
    `a partner's ID is 1 to 63 of a-z, 0-9 and "-", not '${word ?? ''}' (npm run partners -- --help)`,
  );
}

async function list(registry: PartnerRegistry): Promise<Outcome> {
  const partners = await registry.list();
  return { lines: partners.flatMap(render), result: partners };
}

function render({ id, keys }: ListedPartner): string[] {
  const rows = keys.map(({ prefix, createdAt, revokedAt }) => {
    const state = revokedAt === null ? 'good' : `revoked ${revokedAt.toISOString()}`;
    return `  ${(prefix ?? '(beginning not kept)').padEnd(30)} ${createdAt.toISOString()}  ${state}`;
  });
  return [id, ...rows];
}

function add(id: PartnerId) {
  return async (registry: PartnerRegistry): Promise<Outcome> => {
    const added = await registry.add(id);
    if (added.outcome === 'exists') throw new CommandError(`there is a partner ${id} already`);
    return { lines: newKey(added.apiKey), result: { id, apiKey: added.apiKey } };
  };
}

function rotateKey(id: PartnerId) {
  return async (registry: PartnerRegistry): Promise<Outcome> => {
    const added = await registry.addKey(id);
    if (added.outcome === 'no-partner') throw new CommandError(`there is no partner ${id}`);
    const next = 'The keys before it are good until you revoke them: npm run partners -- list';
    return { lines: [...newKey(added.apiKey), next], result: { id, apiKey: added.apiKey } };
  };
}

function revokeKey(id: PartnerId, prefix: string) {
  return async (registry: PartnerRegistry): Promise<Outcome> => {
    const { outcome } = await registry.revokeKey(id, prefix);
    switch (outcome) {
      case 'revoked':
        return { lines: ['revoked; refused within 5 s'], result: { id, revoked: true } };
      case 'no-such-key':
        throw new CommandError(`no good key of ${id} begins so`);
      case 'several-keys':
        throw new CommandError(`several keys of ${id} begin so: give more of the one you mean`);
    }
  };
}

function newKey(apiKey: string): string[] {
  return [apiKey, 'It is shown this once and cannot be had again.'];
}
