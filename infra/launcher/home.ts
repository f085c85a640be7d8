import { randomBytes } from 'node:crypto';
import {
  accessSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve, sep } from 'node:path';
import { generateSealingKey } from '@triplock/runtime';
import { makeDataFolder } from './data-in-memory.ts';
import { UsageError } from '@triplock/command';
import { usualPartsCache } from './programs/installed.mjs';

/** The clone this code lies in. */
export const cloneFolder = realpathSync(resolve(import.meta.dirname, '../..'));

/** Where an instance lives unless `--home` says otherwise. */
export const defaultHome = join(cloneFolder, '.triplock');

/** Code of this clone as V8 compiled it: the second start takes half the time. */
export const compiledCode = join(defaultHome, 'compiled');

/**
 * Fetched programs, shared by all clones of a user and kept by `down --volumes`: in the folder for
 * what can be fetched again (XDG Base Directory Specification, which has a relative path ignored;
 * on macOS, Library/Caches). A user who has none, such as `nobody`, has them in the clone.
 */
export function partsCache(): string {
  const folder = usualPartsCache();
  try {
    mkdirSync(folder, { recursive: true });
    accessSync(folder, constants.W_OK);
    return folder;
  } catch {
    mkdirSync(oldPartsCache, { recursive: true });
    return oldPartsCache;
  }
}

/** Where every clone had its own. */
export const oldPartsCache = join(defaultHome, 'parts');

/**
 * One instance of the system: its data, logs, ports and processes. Two homes share nothing else.
 */
export type Home = {
  /** Absolute and without symbolic links, because it also marks the processes that belong to it. */
  folder: string;
  data: string;
  logs: string;
  /** Temporary files of its processes; gone when they are. */
  temporary: string;
  /** Which of them were ended by order, and are not started again because they are gone. */
  orders: string;
  state: string;
  credentials: string;
  endpoints: string;
  lock: string;
  /** What partners' webhook secrets are sealed with, the newest key first. */
  webhookKeys: string;
  /** What customers have to do is sealed with. */
  actionKeys: string;
};

/** The paths of a home, which need not exist. */
export function homeAt(folder: string = defaultHome): Home {
  const absolute = resolve(folder);
  const root = existsSync(absolute) ? realpathSync(absolute) : absolute;
  return {
    folder: root,
    data: join(root, 'data'),
    logs: join(root, 'logs'),
    temporary: join(root, 'tmp'),
    orders: join(root, 'orders'),
    state: join(root, 'state.json'),
    credentials: join(root, 'credentials.json'),
    endpoints: join(root, 'endpoints.json'),
    lock: join(root, 'lock'),
    webhookKeys: join(root, 'webhook-keys'),
    actionKeys: join(root, 'action-keys'),
  };
}

/**
 * Makes the home's folders where they are missing, and before them its mark.
 *
 * @throws UsageError for a folder that holds other things: what a home is given, `down` removes.
 */
export function createHome(folder: string = defaultHome): Home {
  mkdirSync(resolve(folder), { recursive: true });
  const home = homeAt(folder);
  if (!isMarked(home)) {
    if (!liesInClone(home) && readdirSync(home.folder).length > 0) {
      throw new UsageError(
        `${home.folder} holds other things and no home of Triplock: give --home a folder that is empty, or not there yet`,
      );
    }
    writeMark(home);
  }
  mkdirSync(home.logs, { recursive: true });
  makeDataFolder(home.data);
  return home;
}

const markName = 'triplock-home';
const markText = `Triplock keeps an instance here (npm run up -- --home). What it has made in this folder
"npm run down -- --home FOLDER --volumes" removes, and this file last: without it, it removes nothing.
`;

/**
 * Whether what lies at the paths of a home is that home's: nothing of a folder is removed, and no
 * process of it ended, unless it is. A link is no mark, since somebody may have made it whose
 * folder this is not.
 */
export function isHome(home: Home): boolean {
  return isMarked(home) || liesInClone(home);
}

function isMarked({ folder }: Home): boolean {
  return lstatSync(join(folder, markName), { throwIfNoEntry: false })?.isFile() === true;
}

/** `.triplock` of this clone, and what is below it, is nobody else's. */
function liesInClone({ folder }: Home): boolean {
  return `${folder}${sep}`.startsWith(`${defaultHome}${sep}`);
}

function writeMark({ folder }: Home): void {
  writeFileSync(join(folder, markName), markText);
}

/** Removes the folder of a home that was forgotten, unless somebody keeps something in it. */
export function removeHomeFolder(home: Home): void {
  const left = existsSync(home.folder) ? readdirSync(home.folder) : [];
  if (left.some((name) => name !== markName)) return;
  rmSync(join(home.folder, markName), { force: true });
  try {
    rmdirSync(home.folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return;
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error;
    // Whoever began to use it meanwhile keeps it.
    writeMark(home);
  }
}

/** A demo partner as a client of the system sees it. */
export type PartnerCredentials = { id: string; apiKey: string; webhookSecret: string };

/** Made once per home and kept in a file that only its owner can read. */
export type Credentials = {
  /** Of PostgreSQL's superuser in this home. */
  postgresPassword: string;
  /** Of who may do everything in this home's Redis; its other users' follow from it. */
  redisPassword: string;
  partners: readonly PartnerCredentials[];
  /** Who shows it may have services fail, the provider err and partners refuse. */
  controlToken: string;
  /** Who shows it may have the agent run what breaks this home, and kill its processes. */
  agentToken: string;
};

/** What a partner's own endpoint has to know: no API key. */
export function webhookSecretsOf(partners: readonly PartnerCredentials[]) {
  return partners.map(({ id, webhookSecret }) => ({ id, webhookSecret }));
}

/** Reads the credentials in a file, and makes what is not there: at first all of them. */
export function credentialsIn(file: string): Credentials {
  const stored = readJson(file) as Partial<Credentials> | undefined;
  const credentials = { ...newCredentials(), ...stored };
  const has = Object.keys(stored ?? {}).length;
  if (has < Object.keys(credentials).length) writeJson(file, credentials);
  return credentials;
}

function newCredentials(): Credentials {
  return {
    postgresPassword: randomBytes(24).toString('base64url'),
    redisPassword: randomBytes(24).toString('base64url'),
    partners: ['acme', 'globex'].map((id) => ({
      id,
      apiKey: `tl_demo_${id}_${randomBytes(24).toString('base64url')}`,
      // The form of Standard Webhooks: "whsec_" and 24 to 64 random bytes in base64.
      webhookSecret: `whsec_${randomBytes(32).toString('base64')}`,
    })),
    controlToken: randomBytes(24).toString('base64url'),
    agentToken: randomBytes(24).toString('base64url'),
  };
}

/** The keys in a file that something is sealed with; a first one is made. People change them. */
export function sealingKeysIn(file: string): string {
  if (!existsSync(file)) writeFileSync(file, `${generateSealingKey()}\n`, { mode: 0o600 });
  return readFileSync(file, 'utf8');
}

/** The value in a JSON file, or `undefined` when there is no such file or it was cut off. */
export function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    // Half a file is left only by a machine that lost power; its processes are gone as well.
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT') {
      return undefined;
    }
    throw error;
  }
}

/** Replaces the file in one step and keeps it from other users: these files hold credentials. */
export function writeJson(file: string, value: unknown): void {
  const next = `${file}.${process.pid}.next`;
  writeFileSync(next, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 });
  renameSync(next, file);
}

const prefix = 'without-';

/** Where a system without something lives, for a while and beside the one of a home. */
export function homeWithout(home: string, what: string): string {
  return join(home, `${prefix}${what}`);
}

/** Those that are there now: a command that was killed could not remove its own. */
export function separateHomes(home: string): string[] {
  if (!existsSync(home)) return [];
  const entries = readdirSync(home, { withFileTypes: true });
  return entries
    .filter((entry) => entry.isDirectory() && entry.name.startsWith(prefix))
    .map(({ name }) => join(home, name))
    .filter((folder) => isHome(homeAt(folder)));
}

/** What a person types to start an instance, or what is missing of it; to be copied as it is. */
export function startCommand(home?: string): string {
  if (home === undefined || homeAt(home).folder === defaultHome) return 'npm run up';
  return `npm run up -- --home ${quoted(home)}`;
}

function quoted(word: string): string {
  return /^[\w./~@%+=:,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
