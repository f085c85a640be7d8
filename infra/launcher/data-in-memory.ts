import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statfsSync,
  symlinkSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { homeAt } from './home.ts';

/** Where Linux has a file system in memory, for everybody. */
const memory = '/dev/shm';
const prefix = 'triplock-data-';
const gib = 1024 ** 3;
/** What has to be free there, and of memory in all: the data of all tests is below a gigabyte. */
const room = { there: 3 * gib, memory: 6 * gib };

/**
 * Has a home keep its data in memory, where this machine has room for it: for tests, which make and
 * drop hundreds of databases. A server that is killed loses nothing by it, since its files live on;
 * what it writes is durable as long as the machine is up. Data that a home has already stays where
 * it is. {@link forgetData} removes it.
 */
export function keepDataInMemory(folder: string): void {
  const { data } = homeAt(folder);
  if (lstatSync(data, { throwIfNoEntry: false })?.isSymbolicLink() && !existsSync(data)) {
    // A restart of the machine took what it led to.
    rmSync(data);
  }
  if (existsSync(data) || !hasRoom()) return;
  const target = mkdtempSync(join(memory, prefix));
  // PostgreSQL's own user has to pass, where root starts it; what is inside says who may read it.
  chmodSync(target, 0o711);
  mkdirSync(dirname(data), { recursive: true });
  symlinkSync(target, data);
}

/** Removes a home's data, also where it is kept in memory. */
export function forgetData(data: string): void {
  const isLink = lstatSync(data, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
  const target = isLink ? readlinkSync(data) : undefined;
  if (target !== undefined && dirname(target) === memory && basename(target).startsWith(prefix)) {
    rmSync(target, { recursive: true, force: true });
  }
  rmSync(data, { recursive: true, force: true });
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
