import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { compose, ComposeFailed, dockerOutput } from './containers/engine.ts';
import { containersOf } from './containers/records.ts';
import { CommandError, UsageError } from '@triplock/command';
import type { Target } from './faults.ts';
import { type Home, homeAt, startCommand } from './home.ts';
import { serviceOf } from './services.ts';
import { readState } from './session.ts';

/** All that a process of a home has written, or its container; or every one, parts included. */
export async function readLogs({ home, name }: Partial<Target>): Promise<string> {
  const at = homeAt(home);
  const wanted = (each: string) => name === undefined || each === name;
  const logs =
    readState(at).parts === 'docker'
      ? (await containersOf(at))
          .filter((record) => wanted(record.name))
          .map(({ container }) => wordsOf(container))
      : (await readdir(at.logs))
          .filter((file) => file.endsWith('.log') && wanted(file.slice(0, -'.log'.length)))
          .map((file) => readFile(join(at.logs, file), 'utf8'));
  if (logs.length === 0) throw new Error(`there is no log of ${name ?? 'anything'} in ${home}`);
  return (await Promise.all(logs)).join('\n');
}

async function wordsOf(container: string): Promise<string> {
  const { stdout, stderr } = await dockerOutput('logs', container);
  return stdout + stderr;
}

/** Shows the last lines of every container of a home, or of those of one name. */
export async function showContainerLogs(
  home: Home,
  wanted: { name: string | undefined; lines: number; follow: boolean },
): Promise<void> {
  const { name, lines, follow } = wanted;
  const names = (await containersOf(home)).map((each) => each.name);
  if (names.length === 0) {
    const up = startCommand(home.folder);
    throw new CommandError(`there are no containers of this home: \`${up}\` starts them`);
  }
  if (name !== undefined && !names.some((each) => each === name || serviceOf(each) === name)) {
    throw new UsageError(`there is no log of '${name}'; there are: ${names.sort().join(', ')}`);
  }
  const options = ['--no-color', '--tail', String(lines), ...(follow ? ['--follow'] : [])];
  const replica = name === undefined ? undefined : /-(\d+)$/.exec(name)?.[1];
  const one = replica === undefined ? [] : ['--index', replica];
  const services = name === undefined ? [] : [serviceOf(name)];
  const { signal } = new AbortController();
  const show = (line: string) => void process.stdout.write(`${line}\n`);
  try {
    await compose({ home, args: ['logs', ...options, ...one, ...services], signal, show });
  } catch (error) {
    throw error instanceof ComposeFailed ? new CommandError(error.message) : error;
  }
}
