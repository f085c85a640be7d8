import { existsSync, mkdirSync, realpathSync } from 'node:fs';
import { join, resolve } from 'node:path';

/** The clone this code lies in. */
export const cloneFolder = realpathSync(resolve(import.meta.dirname, '../..'));

/** Where an instance lives unless `--home` says otherwise. */
export const defaultHome = join(cloneFolder, '.triplock');

/** Fetched programs, shared by all homes and kept by `down --volumes`. */
export const partsCache = join(defaultHome, 'parts');

/**
 * One instance of the system: its data, logs, ports and processes. Two homes share nothing else.
 */
export type Home = {
  /** Absolute and without symbolic links, because it also marks the processes that belong to it. */
  folder: string;
  data: string;
  logs: string;
  state: string;
  credentials: string;
  endpoints: string;
  lock: string;
};

/** The paths of a home, which need not exist. */
export function homeAt(folder: string = defaultHome): Home {
  const absolute = resolve(folder);
  const root = existsSync(absolute) ? realpathSync(absolute) : absolute;
  return {
    folder: root,
    data: join(root, 'data'),
    logs: join(root, 'logs'),
    state: join(root, 'state.json'),
    credentials: join(root, 'credentials.json'),
    endpoints: join(root, 'endpoints.json'),
    lock: join(root, 'lock'),
  };
}

/** Makes the home's folders where they are missing. */
export function createHome(folder: string = defaultHome): Home {
  mkdirSync(resolve(folder), { recursive: true });
  const home = homeAt(folder);
  for (const each of [home.data, home.logs]) mkdirSync(each, { recursive: true });
  return home;
}
