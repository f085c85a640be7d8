import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { linkPackages } from '@triplock/launcher';

const root = resolve(import.meta.dirname, '../..');

/** A clone of this repository's HEAD below the system's temporary folder. */
export type ScratchClone = {
  folder: string;
  /** Runs a program there and gives what it printed on stdout; throws with the end of all of it. */
  run(program: string, ...words: string[]): Promise<string>;
  /** Stops a system that is left there, and removes the folder. */
  remove(): Promise<void>;
};

/**
 * Clones HEAD, so what is not committed is not in it. Packages are hard links, or are installed.
 */
export async function openScratchClone(signal: AbortSignal): Promise<ScratchClone> {
  const folder = mkdtempSync(join(tmpdir(), 'scratch-clone-'));
  const run: ScratchClone['run'] = (program, ...words) =>
    runIn(folder, [program, ...words], signal);
  const clone: ScratchClone = {
    folder,
    run,
    remove: async () => {
      const never = new AbortController().signal;
      const down = ['npm', 'run', '-s', 'down', '--', '--volumes'];
      // Where nothing was started, or the clone is not whole, there is nothing to stop.
      await runIn(folder, down, never).catch(() => undefined);
      rmSync(folder, { recursive: true, force: true });
    },
  };
  try {
    await run('git', 'clone', '-q', '--depth', '1', `file://${root}`, '.');
    try {
      linkPackages(folder);
    } catch {
      // It begins by removing every node_modules that is there.
      await run('npm', 'ci', '--no-audit', '--no-fund');
    }
  } catch (error) {
    await clone.remove();
    throw error;
  }
  return clone;
}

/**
 * Runs a program in a folder and gives what it printed on stdout; throws with the end of all of it.
 * A process group of its own, so that an interruption ends all of it.
 *
 * @param heard is told each line that it prints on stdout as it goes.
 * @param settings it is given beside this process's environment.
 */
export function runIn(
  folder: string,
  words: readonly string[],
  signal: AbortSignal,
  { heard, settings }: { heard?: (line: string) => void; settings?: NodeJS.ProcessEnv } = {},
): Promise<string> {
  signal.throwIfAborted();
  const [program, ...rest] = words;
  // What was said of the tests' parts holds for the clone; what was said of this system does not.
  const { TRIPLOCK_E2E_HOME: _, TRIPLOCK_HOME: __, NODE_COMPILE_CACHE: ___, ...env } = process.env;
  const child = spawn(program!, rest, {
    cwd: folder,
    env: { ...env, NX_DAEMON: 'false', CI: 'true', ...settings },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const end = () => process.kill(-child.pid!, 'SIGTERM');
  signal.addEventListener('abort', end, { once: true });
  let [printed, all] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    printed += text;
    all += text;
  });
  if (heard !== undefined) createInterface({ input: child.stdout }).on('line', heard);
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    all += text;
  });
  return new Promise<string>((done, failed) => {
    child.once('error', failed);
    child.once('close', (code) => {
      if (code === 0) return done(printed);
      const tail = all.trimEnd().split('\n').slice(-40).join('\n');
      failed(new Error(`${words.join(' ')}: ${code}\n${tail}`));
    });
  }).finally(() => signal.removeEventListener('abort', end));
}
