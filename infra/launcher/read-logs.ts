import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { containersOf } from './containers/container-records.ts';
import { dockerWords } from './containers/engine.ts';
import type { Target } from './faults.ts';
import { homeAt } from './home.ts';
import { readState } from './state.ts';

/** All that a process of a home has written, or its container; or every one, parts included. */
export async function readLogs({ home, name }: Partial<Target>): Promise<string> {
  const place = homeAt(home);
  const wanted = (each: string) => name === undefined || each === name;
  const logs =
    readState(place).parts === 'docker'
      ? (await containersOf(place))
          .filter((record) => wanted(record.name))
          .map(({ container }) => wordsOf(container))
      : (await readdir(place.logs))
          .filter((file) => file.endsWith('.log') && wanted(file.slice(0, -'.log'.length)))
          .map((file) => readFile(join(place.logs, file), 'utf8'));
  if (logs.length === 0) throw new Error(`there is no log of ${name ?? 'anything'} in ${home}`);
  return (await Promise.all(logs)).join('\n');
}

async function wordsOf(container: string): Promise<string> {
  const { stdout, stderr } = await dockerWords('logs', container);
  return stdout + stderr;
}
