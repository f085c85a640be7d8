import { createHash } from 'node:crypto';
import {
  accessSync,
  chmodSync,
  constants,
  copyFileSync,
  type Dirent,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
} from 'node:fs';
import { rm } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join, relative } from 'node:path';
import { CommandError } from '@triplock/command';
import { partsCache } from '../home.ts';
import { withLock } from '../lock.ts';
import { runTool } from '../processes/run-tool.ts';
import type { Session } from '../session.ts';
import {
  cacheFolderOf,
  findOnPath,
  type CacheEntry,
  type Java,
  lookForJava,
  oldestJava,
} from './installed.mjs';

/**
 * A folder of the parts cache, filled the first time, and again when its content is not that of the
 * checksum, or `isWhole` denies it. It appears under its name only when `fill` has finished, so a
 * fetch that was cut off leaves nothing that looks fetched. Launchers of several clones and homes
 * take turns. Clones that pin another content under the same name have another folder: its name
 * says which.
 *
 * What was damaged is moved aside, and what replaces it is put there. A launcher that looks between
 * the two, or as of a crash there, finds nothing and waits for its turn.
 *
 * @throws CommandError when what was fetched is not what was pinned; none of it is kept.
 */
export async function cached(
  session: Session,
  entry: CacheEntry,
  fill: (folder: string) => Promise<void>,
  isWhole = (folder: string) => isAsPinned(folder, entry),
): Promise<string> {
  const cache = partsCache();
  const folder = join(cache, cacheFolderOf(entry));
  if (isWhole(folder)) return folder;
  await withLock(join(cache, 'lock'), session, async () => {
    if (isWhole(folder)) return;
    // Who holds the lock is alone: these are of fetches that were killed.
    const left = readdirSync(cache).filter((name) => name.startsWith('fetching-'));
    for (const name of left) await rm(join(cache, name), { recursive: true, force: true });
    const filling = mkdtempSync(join(cache, 'fetching-'));
    try {
      await fill(filling);
      if (!isWhole(filling)) throw refused(filling, entry);
      // Root has PostgreSQL run as another user, who must be able to enter.
      chmodSync(filling, 0o755);
      if (existsSync(folder)) renameSync(folder, `${filling}-instead`);
      renameSync(filling, folder);
    } finally {
      for (const left of [filling, `${filling}-instead`]) {
        await rm(left, { recursive: true, force: true });
      }
    }
  });
  return folder;
}

function isAsPinned(folder: string, { checksum }: CacheEntry): boolean {
  if (!existsSync(folder)) return false;
  try {
    return checksum === undefined || checksumOf(folder) === checksum;
  } catch (error) {
    // Moved aside meanwhile.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}

function refused(folder: string, { name, checksum }: CacheEntry): CommandError {
  const what = `what was fetched for ${name} is not what was pinned, and is not used`;
  return new CommandError(`${what}: its checksum is ${checksumOf(folder)}, not ${checksum}`);
}

/** SHA-256 over the names and contents of all in a folder: 50 MB take a tenth of a second. */
function checksumOf(folder: string): string {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => [relative(folder, join(entry.parentPath, entry.name)), entry] as const)
    .sort(([one], [other]) => (one < other ? -1 : 1));
  return hash(
    entries.map(([path, entry]) => `${path} ${contentOf(folder, path, entry)}\n`).join(''),
  );
}

/** A link is what it leads to; what is neither file nor link is in nothing that was pinned. */
function contentOf(folder: string, path: string, entry: Dirent): string {
  const file = join(folder, path);
  if (entry.isFile()) return hash(readFileSync(file));
  return entry.isSymbolicLink() ? `-> ${readlinkSync(file)}` : 'neither file nor link';
}

const hash = (bytes: string | Buffer) => createHash('sha256').update(bytes).digest('hex');

const dependencyPlugin = 'org.apache.maven.plugins:maven-dependency-plugin:3.6.1';

/** Whether Maven can be asked at all. */
export const hasMaven = () => findOnPath('mvn') !== undefined;

/** Runs one goal of Maven's dependency plugin in a folder. */
export async function runMaven(
  session: Session,
  fetch: { name: string; doing: string; goal: string; options: readonly string[]; cwd: string },
): Promise<void> {
  const { name, doing, goal, options, cwd } = fetch;
  session.report(`${doing} with Maven`);
  const args = [
    '-B',
    '-Dstyle.color=never',
    ...repositoryOption(),
    `${dependencyPlugin}:${goal}`,
    ...options,
  ];
  const file = findOnPath('mvn') ?? 'mvn';
  // Maven alone gets the whole environment: proxies and mirrors are set up there.
  const settings = process.env as Record<string, string>;
  await runTool(session, { name, doing, command: { file, args, cwd, settings } });
}

/** Fills a folder with the jars that a pom names, and what they need. */
export async function fetchJars(
  session: Session,
  { name, title, pom, folder }: { name: string; title: string; pom: string; folder: string },
): Promise<void> {
  // Maven writes beside the pom, so it gets a copy.
  copyFileSync(pom, join(folder, 'pom.xml'));
  await runMaven(session, {
    name: `fetch-${name}`,
    doing: `fetching ${title}`,
    goal: 'copy-dependencies',
    options: [`-DoutputDirectory=${folder}`],
    cwd: folder,
  });
  await rm(join(folder, 'pom.xml'));
}

/**
 * Users without a home folder to write to, such as `nobody`, get a Maven repository in the cache.
 */
function repositoryOption(): string[] {
  try {
    // Java asks the system for the home folder and does not look at HOME.
    accessSync(userInfo().homedir, constants.W_OK);
    return [];
  } catch {
    return [`-Dmaven.repo.local=${join(partsCache(), 'maven-repository')}`];
  }
}

let answer: Promise<Java> | undefined;

/** Looks for Java and asks it for its version, once: it takes a moment to say. */
export function findJava(): Promise<Java> {
  answer ??= lookForJava().then((java) => {
    if (java.outcome === 'found') return java;
    const because = `it needs Java ${oldestJava} or newer, and ${java.because}`;
    return { outcome: 'missing', because };
  });
  return answer;
}

/** Options every Java process gets: little memory, and no files outside its own folders. */
export const javaOptions = ['-XX:+UseSerialGC', '-XX:-UsePerfData'];

/**
 * Compiles code once and quickly: for the broker and the Pub/Sub emulator, whose CPU in a run of
 * minutes would else be spent half on optimising themselves.
 */
export const compiledOnce = '-XX:TieredStopAtLevel=1';
