import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Endpoints, UsageError } from '@triplock/launcher';
import type { Terminal } from '@triplock/operator';
import { openForCommand } from '@triplock/postgres';
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

/**
 * The generators to prove: those that are named, or all; with `one` another every day.
 *
 * @throws UsageError for an unknown one.
 */
export function chooseGenerators(
  { only, one }: { only: string | undefined; one: boolean },
  day = Math.floor(Date.now() / 86_400_000),
): string[] {
  const known = Object.keys(pieces);
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
      await provePiece(clone, { kind, short, note });
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
  const projects = await touchedProjects(clone);
  await judge(clone, { projects, note });
  note('what is written by hand beside the declarations');
  await clone.run(process.execPath, '--test', 'infra/launcher/declarations.test.ts');
  note('its tests');
  const own = isService ? [name] : ['contracts'];
  await test(clone, short ? own : [...own, 'auditor', 'operator', 'lint']);
  note('a system with it');
  const system = JSON.parse(await clone.run('npm', 'run', '-s', 'up', '--', '--json')) as Endpoints;
  await payOnce(system);
  await holds?.(system, name);
  note('the audit');
  await clone.run('npm', 'run', '-s', 'audit');
  await clone.run('npm', 'run', '-s', 'down', '--', '--volumes');
  // The others are in too many files to be taken out by a few steps.
  if (!isService) return;
  note('removing it again');
  await removePiece(clone, name);
  const left = projects.filter((project) => !project.endsWith(`/${name}`));
  await judge(clone, { projects: left, note });
}

async function judge(
  clone: ScratchClone,
  { projects, note }: { projects: readonly string[]; note: (line: string) => void },
): Promise<void> {
  note(`lint and types of ${projects.length} projects`);
  const targets = ['-t', 'lint', 'typecheck', '-p', projects.join(',')];
  await clone.run('npx', 'nx', 'run-many', ...targets, '--outputStyle=static');
}

/** The names of the projects of which a file changed. */
async function touchedProjects({ folder, run }: ScratchClone): Promise<string[]> {
  const status = await run('git', 'status', '--porcelain', '-uall', '--no-renames');
  const names = status
    .trimEnd()
    .split('\n')
    .flatMap((line) => {
      const [top = '', second = ''] = line.slice('XY '.length).split('/');
      const file = [join(top, second), top].map((each) => join(folder, each, 'package.json'));
      const found = file.find((each) => existsSync(each) && each !== join(folder, 'package.json'));
      if (found === undefined) return [];
      return (JSON.parse(readFileSync(found, 'utf8')) as { name: string }).name;
    });
  return [...new Set(names)];
}

async function test(clone: ScratchClone, projects: readonly string[]): Promise<void> {
  const { name } = JSON.parse(readFileSync(join(clone.folder, 'package.json'), 'utf8')) as {
    name: string;
  };
  const all = projects.map((project) => `@${name}/${project}`).join(',');
  await clone.run('npx', 'nx', 'run-many', '-t', 'test', '-p', all, '--outputStyle=static');
  const home = join(`.${name}`, 'test');
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

/**
 * As docs/forking.md says: its folder, its lines in the list of services, its name among the
 * launcher's packages, what is generated; then whatever else `git grep` names is as it was.
 */
async function removePiece(clone: ScratchClone, name: string): Promise<void> {
  const { folder, run } = clone;
  rmSync(join(folder, 'services', name), { recursive: true });
  const variable = name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase());
  const word = new RegExp(`\\b${variable}\\b|/${name}"`);
  for (const file of ['services.ts', 'package.json']) {
    const path = join(folder, 'infra', 'launcher', file);
    const lines = readFileSync(path, 'utf8').split('\n');
    writeFileSync(path, lines.filter((line) => !word.test(line)).join('\n'));
  }
  const changed = (await run('git', 'diff', '--name-only')).trim().split('\n');
  const kept = ['infra/launcher/services.ts', 'infra/launcher/package.json', 'package-lock.json'];
  const byHand = changed.filter((path) => !kept.includes(path));
  if (byHand.length > 0) await run('git', 'checkout', '-q', '--', ...byHand);
  await run('npm', 'install', '--no-audit', '--no-fund');
  await run('npm', 'run', '-s', 'generate');
  const left = (await run('git', 'status', '--short')).trim();
  if (left !== '') throw new Error(`what is left of ${name}:\n${left}`);
}

function secondsSince(began: number): number {
  return Math.round((performance.now() - began) / 100) / 10;
}
