import { randomBytes } from 'node:crypto';
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { generateSealingKey } from '@triplock/runtime';
import { makeDataFolder } from './data-in-memory.ts';
import { usualPartsCache } from './parts/installed.mjs';

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
    state: join(root, 'state.json'),
    credentials: join(root, 'credentials.json'),
    endpoints: join(root, 'endpoints.json'),
    lock: join(root, 'lock'),
    webhookKeys: join(root, 'webhook-keys'),
    actionKeys: join(root, 'action-keys'),
  };
}

/** Makes the home's folders where they are missing. */
export function createHome(folder: string = defaultHome): Home {
  mkdirSync(resolve(folder), { recursive: true });
  const home = homeAt(folder);
  mkdirSync(home.logs, { recursive: true });
  makeDataFolder(home.data);
  return home;
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
    .map(({ name }) => join(home, name));
}

/** What a person types to start an instance, or what is missing of it; to be copied as it is. */
export function startCommand(home?: string): string {
  if (home === undefined || homeAt(home).folder === defaultHome) return 'npm run up';
  return `npm run up -- --home ${quoted(home)}`;
}

function quoted(word: string): string {
  return /^[\w./~@%+=:,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
