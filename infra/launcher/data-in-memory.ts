import {
  accessSync,
  chmodSync,
  constants,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmdirSync,
  rmSync,
  statfsSync,
  symlinkSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** Where Linux has a file system in memory, for everybody. */
const memory = '/dev/shm';
const prefix = 'triplock-data-';
const mode = 0o711;
const gib = 1024 ** 3;
/** What has to be free there, and of memory in all: the data of all tests is below a gigabyte. */
const room = { there: 3 * gib, memory: 6 * gib };

/**
 * Has a home keep its data in memory, where this machine has room for it: for tests, which make and
 * drop hundreds of databases. A server that is killed loses nothing by it, since its files live on;
 * what it writes is durable as long as the machine is up. Data that a home has already stays where
 * it is. {@link forgetData} removes it.
 */
export function keepDataInMemory(data: string): void {
  if (isThere(data) || !hasRoom()) return;
  const target = mkdtempSync(join(memory, prefix));
  // PostgreSQL's own user has to pass, where root starts it; what is inside says who may read it.
  chmodSync(target, mode);
  mkdirSync(dirname(data), { recursive: true });
  try {
    symlinkSync(target, data);
  } catch (error) {
    // Another made the folder meanwhile, here or there, and has its data in it.
    rmdirSync(target);
    if (!hasCode(error, 'EEXIST')) throw error;
  }
}

/**
 * Makes the folder of a home's data; anew where it was in memory and the machine was restarted.
 *
 * @throws Error where the place in memory is another user's by now: its name can be known.
 */
export function makeDataFolder(data: string): void {
  const target = targetOf(data);
  if (target === undefined) return void mkdirSync(data, { recursive: true });
  mkdirSync(target, { recursive: true, mode });
  const uid = process.getuid?.();
  if (uid !== undefined && lstatSync(target).uid !== uid) {
    throw new Error(`${target}, where ${data} leads, is another user's: remove ${data}`);
  }
}

/** Removes a home's data, also where it is kept in memory. */
export function forgetData(data: string): void {
  const target = targetOf(data);
  if (target !== undefined) rmSync(target, { recursive: true, force: true });
  rmSync(data, { recursive: true, force: true });
}

/** Where a link leads that is in the place of a home's data and was not made for it. */
export function leadsElsewhere(data: string): string | undefined {
  const isLink = lstatSync(data, { throwIfNoEntry: false })?.isSymbolicLink() === true;
  return isLink && targetOf(data) === undefined ? readlinkSync(data) : undefined;
}

function isThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

/** Where in memory the data is kept; `undefined` where it is not. */
function targetOf(data: string): string | undefined {
  try {
    const target = readlinkSync(data);
    return dirname(target) === memory && basename(target).startsWith(prefix) ? target : undefined;
  } catch (error) {
    // There is nothing, or a folder.
    if (hasCode(error, 'ENOENT') || hasCode(error, 'EINVAL')) return undefined;
    throw error;
  }
}

function hasCode(error: unknown, code: string): boolean {
  return (error as NodeJS.ErrnoException).code === code;
}

function hasRoom(): boolean {
  if (process.platform !== 'linux') return false;
  try {
    accessSync(memory, constants.W_OK);
    const { bavail, bsize } = statfsSync(memory);
    const [, available] = /^MemAvailable: +(\d+) kB$/m.exec(readFileSync('/proc/meminfo', 'utf8'))!;
    return bavail * bsize > room.there && Number(available) * 1024 > room.memory;
  } catch {
    // A system without the one or the other has its data on disk.
    return false;
  }
}
