import type { WorkspaceFile } from '../workspace-files.ts';
import type { Licensed } from './allowed.ts';

/** A package as package-lock.json has it. */
export type Locked = {
  /** Set where the name of its folder is an alias. */
  name?: string;
  version?: string;
  /** Nothing that runs in production needs it. */
  dev?: boolean;
  resolved?: string;
  integrity?: string;
  license?: string;
  link?: boolean;
  hasInstallScript?: boolean;
};

/** The entries of package-lock.json that come from the registry, by their paths. */
export type Lock = Readonly<Record<string, Locked>>;

/** What a lock file has of the registry. */
export function readLockFile(text: string): Lock {
  const { packages } = JSON.parse(text) as { packages: Lock };
  const fetched = ([path, { link }]: [string, Locked]) => path.includes('node_modules/') && !link;
  return Object.fromEntries(Object.entries(packages).filter(fetched));
}

/** The locks of programs that are installed apart from the workspace. */
export function locksOf(files: readonly WorkspaceFile[]): Lock[] {
  return files
    .filter(({ path }) => path.endsWith('/package-lock.json'))
    .map(({ text }) => readLockFile(text()));
}

/** Packages of the tests alone that ask for more, which nobody is given a copy of. */
const ofTests = ['axe-core@4.14.1'];

/** Packages whose manifest has no licence where it belongs, or misspells it, and which it is. */
const readByHand: Readonly<Record<string, string>> = {
  'htmx.org@4.0.1': '0BSD',
  'buildcheck@0.0.7': 'MIT',
  'cpu-features@0.0.10': 'MIT',
  'ssh2@1.17.0': 'MIT',
};

/** Words of manifests that are no SPDX id, and the one that they mean. */
const meant: Readonly<Record<string, string>> = { 'MIT/X11': 'MIT' };

/** What a package's folder is called below the last `node_modules` of its path. */
export function folderOf(path: string): string {
  return path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
}

/** The packages of the lock, by what their manifests say. */
export function npmLicences(lock: Lock): Licensed[] {
  return Object.entries(lock).map(([path, { license, version = '' }]) => {
    const name = folderOf(path);
    const known = `${name}@${version}`;
    const given = readByHand[known] ?? license ?? 'no licence';
    const place = ofTests.includes(known) ? 'in tests' : 'in ours';
    return { source: 'npm', name, version, licence: meant[given] ?? given, place };
  });
}
