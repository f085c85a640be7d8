import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { join } from 'node:path';
import { chooseTestPart, chooseTestParts, testEndpoints } from '@triplock/testing';
import { bringUpParts } from '../bring-up.ts';
import { keepDataInMemory } from '../data-in-memory.ts';
import { cloneFolder, createHome, homeAt, readJson, writeJson } from '../home.ts';
import { declaredParts, findInSdk } from '../parts/store-parts.ts';
import type { Report } from '../session.ts';
import { sharedTestHome } from '../test/home.ts';

/** What was chosen for all of them, which decides whether what was green is green again. */
export const storesVariable = 'TRIPLOCK_TEST_STORES';

/**
 * Chooses what tests run on that need a part which cannot be had everywhere; their environment
 * tells them. Returns the projects that are left out because there is none.
 */
export async function chooseStoreParts(report: Report): Promise<readonly string[]> {
  const leftOut: string[] = [];
  const chosen: string[] = [];
  for (const part of declaredParts) {
    const { program, title, folder } = part;
    if (program.from !== 'gcloud SDK') continue;
    const { on, because } = await chooseTestPart(part, program, { file: findInSdk(program) });
    process.env[program.testVariable] = on;
    chosen.push(`${part.name} ${on}`);
    if (on !== 'none') continue;
    const { name } = readJson(join(folder, 'package.json')) as { name: string };
    leftOut.push(name);
    report(`left out, all tests of ${name} and what needs the ${title} elsewhere: ${because}`);
  }
  process.env[storesVariable] = chosen.join(', ');
  return leftOut;
}

/** What a run of tests tells, and what breaks it off. */
export type TestRun = { report: Report; signal: AbortSignal };

/**
 * Has the parts up that tests share, as an earlier run left them or started now; returns the file
 * that names them. Containers go when this process has ended, however it ends.
 *
 * @param pace as {@link bringUpParts} has it.
 */
export async function startTestParts(
  { report, signal }: TestRun,
  pace?: 'startedOften',
): Promise<string> {
  const home = homeAt(sharedTestHome);
  const { parts, because } = await chooseTestParts();
  const where = parts === 'native' ? 'processes of the launcher' : 'containers';
  report(`tests run on ${where}: ${because}`);
  if (parts === 'native') {
    keepDataInMemory(home.data);
    await bringUpParts({ home: home.folder, report, signal, ...(pace && { pace }) });
  } else writeJson(createHome(home.folder).endpoints, await testEndpoints());
  return home.endpoints;
}

/**
 * Runs a program of this clone to its end and returns its exit code. Once the run was broken off
 * none begins.
 */
export function runToEnd(
  args: readonly string[],
  { env, signal }: { env: Readonly<Record<string, string>>; signal: AbortSignal },
): Promise<number> {
  if (signal.aborted) return Promise.resolve(128 + constants.signals.SIGINT);
  const child = spawn(process.execPath, args, {
    cwd: cloneFolder,
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, ...env },
  });
  signal.addEventListener('abort', () => child.kill('SIGINT'));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code, end) => resolve(code ?? 128 + constants.signals[end!]));
  });
}
