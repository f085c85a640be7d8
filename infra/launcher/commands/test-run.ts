import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { chooseTestParts, chooseTestSpanner, testEndpoints } from '@triplock/testing';
import { bringUpParts } from '../bring-up.ts';
import { keepDataInMemory } from '../data-in-memory.ts';
import { cloneFolder, createHome, homeAt, writeJson } from '../home.ts';
import { findSpannerEmulator } from '../parts/spanner.ts';
import type { Report } from '../session.ts';
import { sharedTestHome } from '../test/home.ts';

/** Where tests are told what their Spanner is. */
export const spannerVariable = 'TRIPLOCK_TEST_SPANNER';
/** The project that is all about it. */
const inSpanner = '@triplock/ledger-spanner';

/**
 * Chooses what tests of a ledger in Spanner run on; their environment tells them. Returns the
 * projects that are left out because there is none.
 */
export async function chooseSpanner(report: Report): Promise<readonly string[]> {
  const { spanner, because } = await chooseTestSpanner(findSpannerEmulator());
  process.env[spannerVariable] = spanner;
  if (spanner !== 'none') return [];
  report(`left out, all tests of ${inSpanner} and what needs Spanner elsewhere: ${because}`);
  return [inSpanner];
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
