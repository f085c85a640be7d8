import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { LauncherError } from '../launcher-error.ts';
import type { Session } from '../session.ts';

/** Nearly all backends end at once; one in the middle of a long statement goes on to its end. */
const waitMs = 60_000;
const lookAgainMs = 50;

/**
 * Waits until the backends of a server that was killed are gone: while one is attached to the shared
 * memory of the cluster, PostgreSQL refuses to start a server on it.
 *
 * @throws LauncherError when one is still at work after a minute.
 */
export async function awaitOldBackends(session: Session, cluster: string): Promise<void> {
  const segment = sharedMemoryOf(cluster);
  if (segment === undefined) return;
  const deadline = Date.now() + waitMs;
  for (let told = false; attachedTo(segment) > 0; told = true) {
    if (!told) session.report('postgres: backends of the killed server are still at work, waiting');
    if (Date.now() > deadline) {
      throw new LauncherError(
        `postgres: a killed server's backends are still at work after ${waitMs / 1000} s: wait for their statements to end, or end the processes that ps calls "postgres: …", and call up again`,
      );
    }
    await delay(lookAgainMs, undefined, { signal: session.signal });
  }
}

/** The id of the shared memory that the last server left, from the 7th line of its postmaster.pid. */
function sharedMemoryOf(cluster: string): string | undefined {
  const lines = read(join(cluster, 'postmaster.pid'))?.split('\n');
  return lines?.[6]?.trim().split(/\s+/)[1];
}

/** How many processes are attached; 0 where the system does not tell (proc(5), /proc/sysvipc/shm). */
function attachedTo(segment: string): number {
  const [head = '', ...rows] = read('/proc/sysvipc/shm')?.trimEnd().split('\n') ?? [];
  const columns = head.trim().split(/\s+/);
  const fields = rows.map((row) => row.trim().split(/\s+/));
  const found = fields.find((row) => row[columns.indexOf('shmid')] === segment);
  return Number(found?.[columns.indexOf('nattch')] ?? 0);
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
