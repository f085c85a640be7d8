import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { cloneFolder, homeAt } from './home.ts';
import { findMarkedProcesses } from './processes/find-processes.ts';
import { makeTestHome, removeTestHome } from './test-homes.ts';

/** What a command printed, and how it ended. */
export type Ran = { code: number; stdout: string; stderr: string };

/** The first file of every npm script. */
export const launcher = join(cloneFolder, 'infra', 'launcher', 'triplock.mjs');

/** An instance of one test's own in a path with spaces; after the test nothing of it is left. */
export function aHome(test: TestContext, options: { below?: 'private folder' } = {}): string {
  const { parent, home } = makeTestHome();
  chmodSync(parent, options.below === 'private folder' ? 0o700 : 0o755);
  test.after(() => removeTestHome(parent));
  return home;
}

/** Every process that belongs to the home, recorded or not. */
export function processesOf(home: string): number[] {
  return findMarkedProcesses(homeAt(home));
}

/** Runs one of the npm scripts to its end. */
export function runScript(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<Ran> {
  const env = { ...process.env, ...environment };
  return new Promise((resolve) => {
    execFile(process.execPath, [launcher, ...args], { env }, (error, stdout, stderr) => {
      resolve({
        code: typeof error?.code === 'number' ? error.code : error ? 1 : 0,
        stdout,
        stderr,
      });
    });
  });
}

/** Starts one of the npm scripts, in a process group of its own. */
export function startScript(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): ChildProcess {
  const env = { ...process.env, ...environment };
  return spawn(process.execPath, [launcher, ...args], { env, detached: true, stdio: 'ignore' });
}
