import { type ListedPartner, openPartnerRegistry, type PartnerRegistry } from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import { isWholeSystem } from '../endpoints.ts';
import { LauncherError, UsageError } from '../errors.ts';
import { startCommand } from '../home.ts';
import { withDatabase } from '../provision/database.ts';
import { systemStatus, unreachableParts } from '../status.ts';
import { atDatabase } from './at-database.ts';
import { runCommand } from './run-command.ts';

const help = `
npm run partners -- list
npm run partners -- add ID
npm run partners -- rotate-key ID
npm run partners -- revoke-key ID KEYPREFIX

Manages the partners of a running system and their API keys. A key is stored as a hash and shown
once, when it is made. rotate-key makes a new one, valid at once, beside the others; revoke-key
ends the one that begins with KEYPREFIX, within 5 s. Exit code 1 when nothing was done, 2 when the
system is not up.

  --home DIR   the instance (.triplock)
  --json       prints the partners, or { id, apiKey }, or { id, revoked }
  --help

PARTNERS_DATABASE_URL  the database of a system that is not on this machine, as triplock_partners
`;

/** What an action came to: for people, and for machines. */
type Told = { lines: readonly string[]; result: unknown };

await runCommand({
  name: 'partners',
  help,
  options: { home: { type: 'string' }, json: { type: 'boolean' } },
  wordsMax: 3,
  run: async ({ values, words }) => {
    const action = actionOf(words);
    const url = process.env['PARTNERS_DATABASE_URL'] || (await partnersUrl(values.home));
    const told = await atDatabase(url, () =>
      withDatabase(url, (database) => action(openPartnerRegistry(database))),
    );
    const text = values.json ? JSON.stringify(told.result, null, 2) : told.lines.join('\n');
    process.stdout.write(`${text}\n`);
  },
});

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

async function list(registry: PartnerRegistry): Promise<Told> {
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
  return async (registry: PartnerRegistry): Promise<Told> => {
    const added = await registry.add(id);
    if (added.outcome === 'exists') throw new LauncherError(`there is a partner ${id} already`);
    return { lines: newKey(added.apiKey), result: { id, apiKey: added.apiKey } };
  };
}

function rotateKey(id: PartnerId) {
  return async (registry: PartnerRegistry): Promise<Told> => {
    const added = await registry.addKey(id);
    if (added.outcome === 'no-partner') throw new LauncherError(`there is no partner ${id}`);
    const next = 'The keys before it are good until you revoke them: npm run partners -- list';
    return { lines: [...newKey(added.apiKey), next], result: { id, apiKey: added.apiKey } };
  };
}

function revokeKey(id: PartnerId, prefix: string) {
  return async (registry: PartnerRegistry): Promise<Told> => {
    const { outcome } = await registry.revokeKey(id, prefix);
    switch (outcome) {
      case 'revoked':
        return { lines: ['revoked; refused within 5 s'], result: { id, revoked: true } };
      case 'no-such-key':
        throw new LauncherError(`no good key of ${id} begins so`);
      case 'several-keys':
        throw new LauncherError(`several keys of ${id} begin so: give more of the one you mean`);
    }
  };
}

function newKey(apiKey: string): string[] {
  return [apiKey, 'It is shown this once and cannot be had again.'];
}

async function partnersUrl(home: string | undefined): Promise<string> {
  const { endpoints, processes } = await systemStatus(home === undefined ? {} : { home });
  const running = processes.some(({ state }) => state !== 'gone');
  if (running && endpoints && isWholeSystem(endpoints)) {
    const away = await unreachableParts({ home: endpoints.home, only: ['postgres'] });
    if (away.length > 0) throw new LauncherError(away.join('\n'));
    return endpoints.databases.partners;
  }
  throw new UsageError(`the system is not up: start it with \`${startCommand(home)}\``);
}
