import { randomUUID } from 'node:crypto';
import { lstatSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LauncherError } from './errors.ts';
import { homeAt, type Home } from './home.ts';
import { readIfThere, tryLink, type Owner } from './lock.ts';
import { isSameProcess, startTimeOf } from './processes/identity.ts';
import { readState, type Reservations } from './session.ts';

/** A file per port says whose it is: the home, and the launcher while one is at work on it. */
type Reservation = { home: string; launcher?: Owner };

/** One folder for the user on this machine, whatever TMPDIR says: clones differ in that. */
const folder = join('/tmp', `triplock-ports-${process.getuid?.() ?? 'user'}`);

/**
 * Opens the reservations for a home. Call `reserve` under the home's lock.
 *
 * Files are called `<port>.<n>`, and the one with the highest n counts. It is never removed, only
 * followed by n + 1, which is linked and so made by one alone: a launcher that was killed at any
 * line leaves a file behind whose owner is dead, and it is no matter who follows it.
 */
export function openReservations(home: Home): Reservations {
  const launcher = { pid: process.pid, startedAt: startTimeOf(process.pid) ?? '' };
  const held = new Map<number, string>();
  return {
    reserve(port) {
      if (held.has(port)) return true;
      const name = follow(port, { home: home.folder, launcher });
      if (name === undefined) return false;
      held.set(port, name);
      return true;
    },
    release() {
      for (const name of held.values()) replace(name, { home: home.folder });
      held.clear();
    },
  };
}

/** The name of the file by which the port is ours; nothing when it is another's. */
function follow(port: number, mine: Reservation): string | undefined {
  ensureFolder();
  for (;;) {
    const last = highest(port);
    if (last > 0) {
      const text = readIfThere(join(folder, `${port}.${last}`));
      // Followed meanwhile, and removed by whoever follows.
      if (text === undefined) continue;
      if (isAnothers(JSON.parse(text) as Reservation, mine)) return undefined;
    }
    const name = `${port}.${last + 1}`;
    if (!linkNew(name, mine)) continue;
    // One that was followed and removed between our look and our link would be ours by name alone.
    if (highest(port) > last + 1) {
      rmSync(join(folder, name), { force: true });
      continue;
    }
    for (const lower of numbersOf(port).filter((n) => n <= last)) {
      rmSync(join(folder, `${port}.${lower}`), { force: true });
    }
    return name;
  }
}

/** Under the lock of our own home, what an earlier launcher reserved for it is ours. */
function isAnothers({ home, launcher }: Reservation, mine: Reservation): boolean {
  if (home === mine.home) return false;
  if (launcher !== undefined && isSameProcess(launcher)) return true;
  return Object.values(readState(homeAt(home)).processes).some(isSameProcess);
}

function numbersOf(port: number): number[] {
  const beginning = `${port}.`;
  return readdirSync(folder)
    .filter((name) => name.startsWith(beginning))
    .map((name) => Number(name.slice(beginning.length)));
}

const highest = (port: number) => Math.max(0, ...numbersOf(port));

/** Linking a file that is already written: nobody ever reads one without its owner in it. */
function linkNew(name: string, reservation: Reservation): boolean {
  const written = write(reservation);
  try {
    return tryLink(written, join(folder, name));
  } finally {
    rmSync(written);
  }
}

/** Nobody else changes or removes a file whose owner lives. */
function replace(name: string, reservation: Reservation): void {
  renameSync(write(reservation), join(folder, name));
}

function write(reservation: Reservation): string {
  const file = join(folder, `writing-${randomUUID()}`);
  writeFileSync(file, JSON.stringify(reservation), { mode: 0o600 });
  return file;
}

/** @throws LauncherError where the folder is another user's, who knew its name. */
function ensureFolder(): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const { uid } = lstatSync(folder);
  if (lstatSync(folder).isDirectory() && uid === (process.getuid?.() ?? uid)) return;
  throw new LauncherError(`${folder} should be a folder of this user: look at it and remove it`);
}
