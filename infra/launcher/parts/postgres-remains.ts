import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { LauncherError } from '../launcher-error.ts';
import type { Session } from '../session.ts';

/** Nearly all backends end at once; one in the middle of a long statement goes on to its end. */
const waitMs = 60_000;
const lookAgainMs = 50;

/**
 * Makes way for a new server on a cluster whose server was killed: waits until its backends are
 * gone, because PostgreSQL refuses to start while one is attached to the old shared memory, and
 * takes the old server's lock file away. That one is believed as long as there is a process of its
 * number, also when that is a zombie or another program by now.
 *
 * Where the system does not show what is attached, PostgreSQL judges by itself.
 *
 * @throws LauncherError when a backend is still at work after a minute.
 */
export async function clearRemains(session: Session, cluster: string): Promise<void> {
  const lockFile = join(cluster, 'postmaster.pid');
  const memory = sharedMemoryOf(lockFile);
  if (memory === undefined) return;
  const deadline = Date.now() + waitMs;
  for (let told = false; ; told = true) {
    const attached = attachedTo(memory);
    if (attached === undefined) return;
    if (attached === 0) break;
    if (!told) session.report('postgres: backends of the killed server are still at work, waiting');
    if (Date.now() > deadline) throw stillAtWork();
    await delay(lookAgainMs, undefined, { signal: session.signal });
  }
  // A server that lives is attached itself, so none does.
  rmSync(lockFile, { force: true });
}

function stillAtWork(): LauncherError {
  return new LauncherError(
    `postgres: a killed server's backends are still at work after ${waitMs / 1000} s: wait for their statements to end, or end the processes that ps calls "postgres: …", and call up again`,
  );
}

type SharedMemory = { key: string; id: string };

/** What the last server used, from the 7th line of its lock file: key and id. */
function sharedMemoryOf(lockFile: string): SharedMemory | undefined {
  const line = read(lockFile)?.split('\n')[6];
  const [key, id] = line?.trim().split(/\s+/) ?? [];
  return key === undefined || id === undefined ? undefined : { key, id };
}

/**
 * How many processes are attached (proc(5), /proc/sysvipc/shm); `undefined` where nothing tells.
 */
function attachedTo({ key, id }: SharedMemory): number | undefined {
  const text = read('/proc/sysvipc/shm');
  if (text === undefined) return undefined;
  const [columns = [], ...rows] = text
    .trimEnd()
    .split('\n')
    .map((row) => row.trim().split(/\s+/));
  const cell = (row: string[], column: string) => row[columns.indexOf(column)];
  const found = rows.find((row) => cell(row, 'key') === key && cell(row, 'shmid') === id);
  return found === undefined ? 0 : Number(cell(found, 'nattch'));
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
