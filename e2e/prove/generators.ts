import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Endpoints } from '@triplock/launcher';
import { UsageError, type Terminal } from '@triplock/command';
import { openForCommand } from '@triplock/postgres';
import { providerNames } from '@triplock/providers';
import { eventually } from '@triplock/testing';
import { partner } from '../test/partner.ts';
import { openScratchClone, type ScratchClone } from './scratch-clone.ts';

/** What `--json` prints: of each generator whether what it wrote held, and how long that took. */
export type ProvenGenerators = {
  ok: boolean;
  seconds: number;
  generators: readonly { kind: string; seconds: number; failed?: string }[];
};

/** What a generator makes here, and what is true of a system with it, beyond a payment. */
type Piece = { name: string; holds?: (system: Endpoints, name: string) => Promise<void> };

const pieces: Readonly<Record<string, Piece>> = {
  rename: { name: 'acmepay' },
  consumer: { name: 'loyalty', holds: hasCounted },
  service: { name: 'price-list', holds: isReady },
  transaction: { name: 'payout', holds: isSettled },
};

/** What is taken out, one after the other: each provider that nobody charges at unasked, too. */
const removed = [
  'settlement-feed',
  'claims-dynamodb',
  'claims-hybrid',
  'ledger-spanner',
  ...providerNames.slice(1),
];

/**
 * The generators to prove: those that are named, or all; with `one` another every day.
 *
 * @throws UsageError for an unknown one.
 */
export function chooseGenerators(
  { only, one }: { only: string | undefined; one: boolean },
  day = Math.floor(Date.now() / 86_400_000),
): string[] {
  const known = [...Object.keys(pieces), 'remove'];
  const asked = only?.split(',').map((word) => word.trim()) ?? known;
  const unknown = asked.filter((kind) => !known.includes(kind));
  if (unknown.length > 0) {
    throw new UsageError(`${unknown.join(', ')}: no such generator; there are ${known.join(', ')}`);
  }
  return one ? [asked[day % asked.length]!] : asked;
}

/**
 * Runs each generator in a scratch clone and proves what came out; the clone is gone afterwards.
 */
export async function proveGenerators(
  { kinds, short }: { kinds: readonly string[]; short: boolean },
  { terminal, signal }: { terminal: Terminal; signal: AbortSignal },
): Promise<ProvenGenerators> {
  const began = performance.now();
  const generators = [];
  for (const kind of kinds) {
    const since = performance.now();
    const note = (line: string) => terminal.note(`${kind}: ${line}`);
    note('cloning');
    const clone = await openScratchClone(signal);
    let failed: string | undefined;
    try {
      await (kind === 'remove'
        ? proveRemoval(clone, note)
        : provePiece(clone, { kind, short, note }));
    } catch (error) {
      signal.throwIfAborted();
      failed = error instanceof Error ? error.message : String(error);
      note(`failed: ${failed}`);
    } finally {
      note('removing the clone');
      await clone.remove();
    }
    const seconds = secondsSince(since);
    generators.push({ kind, seconds, ...(failed !== undefined && { failed }) });
  }
  const ok = generators.every(({ failed }) => failed === undefined);
  return { ok, seconds: secondsSince(began), generators };
}

async function provePiece(
  clone: ScratchClone,
  { kind, short, note }: { kind: string; short: boolean; note: (line: string) => void },
): Promise<void> {
  const { name, holds } = pieces[kind]!;
  const isService = kind === 'consumer' || kind === 'service';
  note('generating');
  await clone.run('npm', 'run', '-s', 'new', '--', kind, name);
  const affected = await affectedProjects(clone);
  await judge(clone, note);
  note('what is written by hand beside the declarations');
  await clone.run(process.execPath, '--test', 'infra/launcher/declarations.test.ts');
  const own = scoped(clone, [isService ? name : 'contracts']);
  // The launcher's own are about starting processes; its declarations are tried above.
  const others = affected.filter((each) => !each.endsWith('/launcher'));
  await test(clone, { projects: short ? own : others, note });
  await payAndAudit(clone, note, (system) => holds?.(system, name));
  // The others are in too many files to be taken out by a few steps.
  if (!isService) return;
  note('removing it again');
  await removePiece(clone, name);
  await judge(clone, note);
}

async function payAndAudit(
  clone: ScratchClone,
  note: (line: string) => void,
  holds?: (system: Endpoints) => Promise<void> | undefined,
): Promise<void> {
  note('a system');
  const system = JSON.parse(await clone.run('npm', 'run', '-s', 'up', '--', '--json')) as Endpoints;
  await payOnce(system);
  await holds?.(system);
  note('the audit');
  await clone.run('npm', 'run', '-s', 'audit');
  await clone.run('npm', 'run', '-s', 'down', '--', '--volumes');
}

/** Takes pieces out that are there, and pays without them. */
async function proveRemoval(clone: ScratchClone, note: (line: string) => void): Promise<void> {
  for (const name of removed) {
    note(`taking ${name} out`);
    await clone.run('npm', 'run', '-s', 'new', '--', 'remove', name);
  }
  await judge(clone, note);
  note('what names them, and what only they used');
  const tests = ['infra/launcher/declarations.test.ts', 'infra/lint/tidy.test.ts'];
  await clone.run(process.execPath, '--test', ...tests);
  await payAndAudit(clone, note);
}

/**
 * Rules, types and format of everything: a list that a generator makes longer is somebody's type.
 */
async function judge(clone: ScratchClone, note: (line: string) => void): Promise<void> {
  note('lint and types');
  await clone.run(process.execPath, 'infra/lint/main.ts');
}

/**
 * Projects of which a file changed, and with them all that import one of those, by whatever way.
 */
async function affectedProjects(clone: ScratchClone): Promise<readonly string[]> {
  const { folder, run } = clone;
  const status = await run('git', 'status', '--porcelain', '-uall', '--no-renames');
  const paths = status
    .trimEnd()
    .split('\n')
    .map((line) => line.slice('XY '.length));
  const inProjects = paths.flatMap((path) => {
    const [top = '', second = ''] = path.split('/');
    const file = [join(top, second), top].map((each) => join(folder, each, 'package.json'));
    const found = file.find((each) => existsSync(each) && each !== join(folder, 'package.json'));
    if (found === undefined) return [];
    return { path, name: (JSON.parse(readFileSync(found, 'utf8')) as { name: string }).name };
  });
  const touched = [...new Set(inProjects.map(({ name }) => name))];
  const files = inProjects.map(({ path }) => path).join(',');
  const words = ['show', 'projects', '--affected', `--files=${files}`, '--json'];
  const dependents = JSON.parse(await run('npx', 'nx', ...words)) as string[];
  const unseen = touched.filter((each) => !dependents.includes(each));
  if (unseen.length > 0) throw new Error(`nx does not know that ${unseen.join(', ')} changed`);
  return dependents;
}

/** The names of projects in the clone, which may have been renamed. */
function scoped({ folder }: ScratchClone, projects: readonly string[]): string[] {
  return projects.map((project) => `@${nameOf(folder)}/${project}`);
}

function nameOf(folder: string): string {
  return (JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { name: string }).name;
}

async function test(
  clone: ScratchClone,
  { projects, note }: { projects: readonly string[]; note: (line: string) => void },
): Promise<void> {
  note(`tests of ${projects.length} projects`);
  const words = ['-t', 'test', '-p', projects.join(','), '--outputStyle=static'];
  await clone.run('npx', 'nx', 'run-many', ...words);
  const home = join(`.${nameOf(clone.folder)}`, 'test');
  await clone.run('npm', 'run', '-s', 'down', '--', '--volumes', '--home', home);
}

async function payOnce(system: Endpoints): Promise<void> {
  const acme = partner(system, 'acme');
  const body = { amount: 1_250, currency: 'EUR', description: 'through the new piece' };
  const accepted = await acme.pay(`generated-${Date.now()}`, body);
  if (accepted.status !== 202) throw new Error(`a payment got ${accepted.status}`);
  const { id } = JSON.parse(accepted.body) as { id: string };
  const { body: read } = await acme.payment(id, 20);
  if (!read.includes('succeeded')) throw new Error(`the payment is not settled: ${read}`);
}

async function hasCounted({ databases }: Endpoints, name: string): Promise<void> {
  const url = (databases as Readonly<Record<string, string>>)[name]!;
  const database = openForCommand({ url, applicationName: 'prove' });
  try {
    const counted = async () => (await database.query('SELECT FROM counts')).length > 0;
    await eventually(counted, { withinMs: 30_000, what: 'the count of the payment' });
  } finally {
    await database.close();
  }
}

async function isSettled(system: Endpoints, name: string): Promise<void> {
  const acme = partner(system, 'acme');
  const body = { amount: 250, currency: 'EUR', description: 'of the new kind' };
  const path = `/v1/${name}s`;
  const accepted = await acme.send({ method: 'POST', path, key: `${name}-${Date.now()}`, body });
  if (accepted.status !== 202) throw new Error(`a ${name} got ${accepted.status}`);
  const { id } = JSON.parse(accepted.body) as { id: string };
  const read = await acme.send({ path: `${path}/${id}`, headers: { prefer: 'wait=20' } });
  if (!read.body.includes('succeeded')) throw new Error(`it is not settled: ${read.body}`);
}

async function isReady({ services }: Endpoints, name: string): Promise<void> {
  const one = services.find(({ service }) => service === name);
  if (one === undefined) throw new Error(`${name} does not run`);
  const { ok } = await fetch(one.ready);
  if (!ok) throw new Error(`${name} is not ready`);
}

/** Takes out what was made: nothing of it is left. */
async function removePiece({ run }: ScratchClone, name: string): Promise<void> {
  await run('npm', 'run', '-s', 'new', '--', 'remove', name);
  const left = (await run('git', 'status', '--short')).trim();
  if (left !== '') throw new Error(`what is left of ${name}:\n${left}`);
}

function secondsSince(began: number): number {
  return Math.round((performance.now() - began) / 100) / 10;
}
