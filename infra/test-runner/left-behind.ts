import { existsSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { commandOf, familyOf } from './processes.ts';

/** What a process had before a file of tests ran in it. */
export type Before = {
  env: Readonly<NodeJS.ProcessEnv>;
  folder: string;
  resources: ReadonlyMap<string, number>;
  files: ReadonlySet<string>;
};

/** What there is now. */
export function remember(): Before {
  const files = new Set(readdirSync(tmpdir()));
  return { env: { ...process.env }, folder: process.cwd(), resources: openResources(), files };
}

/**
 * What is there that was not before, in words: what keeps the process alive, processes it started,
 * files below the temporary folder, which is this process's own. Settings in the environment are
 * put back. What is only on its way out is waited for, for so long.
 */
export async function leftBehindSince(before: Before, goneMs: number): Promise<string[]> {
  restoreEnvironment(before);
  const deadline = performance.now() + goneMs;
  for (let waitMs = 20; ; waitMs = Math.min(500, waitMs * 1.5)) {
    const isLate = performance.now() > deadline;
    const own = [...resourcesLeft(before), ...filesLeft(before), ...homesLeft()];
    const isClear = own.length === 0 && !connectionsLeft(before);
    // Last, since to look at every process of the machine takes longer than all the rest.
    const left = isClear || isLate ? [...processesLeft(), ...own] : own;
    if (isLate || (isClear && left.length === 0)) return [...left, ...failedLate()];
    await delay(waitMs);
  }
}

function restoreEnvironment({ env, folder }: Before): void {
  for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name];
  Object.assign(process.env, env);
  process.chdir(folder);
}

/** What keeps the event loop going, by its kind. */
function openResources(): Map<string, number> {
  const resources = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo()) {
    // The wait of this file; a child is told by its own line.
    if (kind === 'Timeout' || kind === 'ProcessWrap') continue;
    resources.set(kind, (resources.get(kind) ?? 0) + 1);
  }
  return resources;
}

const wordsFor: Readonly<Record<string, string>> = {
  TCPServerWrap: 'a port that it listens on',
  FSEventWrap: 'a file that it watches',
  MessagePort: 'a thread',
};

/**
 * Those of pools and clients are waited for and held against nobody: the other end may keep one for
 * a while, and no test can tell.
 */
const connections = ['TCPSocketWrap', 'PipeWrap', 'TLSWrap'];

function connectionsLeft({ resources }: Before): boolean {
  const now = openResources();
  return connections.some((kind) => (now.get(kind) ?? 0) > (resources.get(kind) ?? 0));
}

function resourcesLeft(before: Before): string[] {
  return [...openResources()]
    .map(([kind, count]): [string, number] => [kind, count - (before.resources.get(kind) ?? 0)])
    .filter(([kind, more]) => more > 0 && !connections.includes(kind))
    .map(([kind, more]) => `${wordsFor[kind] ?? kind}, ${more} of them`);
}

function processesLeft(): string[] {
  return familyOf(process.pid, tmpdir()).map((pid) => `process ${pid}, ${commandOf(pid)}`);
}

function filesLeft({ files }: Before): string[] {
  const left = readdirSync(tmpdir()).filter((name) => !files.has(name));
  return left.map((name) => `${name} in the temporary folder`);
}

/** Where tests of the launcher have systems of their own, each named after the process it is of. */
const homesFolder = join(import.meta.dirname, '..', '..', '.triplock', 'test', 'homes');

function homesLeft(): string[] {
  if (!existsSync(homesFolder)) return [];
  const own = `one test of ${process.pid} `;
  return readdirSync(homesFolder)
    .filter((name) => name.startsWith(own))
    .map((name) => `the home ${join(homesFolder, name)}`);
}

/** What runs on after a test tells by the exit code that it failed. */
function failedLate(): string[] {
  const { exitCode } = process;
  process.exitCode = undefined;
  const isSet = exitCode !== undefined && exitCode !== 0;
  return isSet ? [`exit code ${exitCode}, set by what ran on; what it printed says why`] : [];
}
