import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { UsageError } from '@triplock/command';
import { cloneFolder, defaultHome } from './home.ts';

/** A commit's code in a folder of its own, with this clone's packages. */
export type Checkout = { commit: string; folder: string; remove(): void };

/**
 * Has a commit of this repository beside what is here, to run it: in a folder of its own for each
 * `purpose`, which one command at a time uses. Says when its packages are not those here.
 *
 * @throws UsageError for a commit that there is not.
 */
export function checkOut(
  name: string,
  { purpose, report }: { purpose: string; report: (line: string) => void },
): Checkout {
  const commit = commitCalled(name);
  const folder = join(defaultHome, purpose, commit);
  const remove = () => {
    rmSync(folder, { recursive: true, force: true });
    git('worktree', 'prune');
  };
  remove();
  git('worktree', 'add', '--detach', folder, commit);
  linkPackages(folder);
  const lock = (of: string) => readFileSync(join(of, 'package-lock.json'), 'utf8');
  if (lock(folder) !== lock(cloneFolder)) {
    report(`the packages of ${commit} are others: it runs with those of this clone`);
  }
  return { commit, folder, remove };
}

const baselines = ':/*/migrations/0001-baseline.sql';

/**
 * The commit that an upgrade to what is here may begin at: the one that is named, else the oldest
 * with the same baselines. Until the first release a baseline is the whole schema and is edited,
 * and `up` refuses a database of another one.
 *
 * @throws UsageError for a commit that there is not, or with other baselines.
 */
export function upgradableFrom(name: string | undefined): string {
  const last = git('log', '-1', '--format=%h', '--', baselines);
  const commit = commitCalled(name ?? last);
  if (git('diff', '--name-only', commit, '--', baselines) === '') return commit;
  const way = name === undefined ? 'commit what changed here' : `the oldest that has is ${last}`;
  throw new UsageError(`${commit} has not the baselines that are here, which up refuses: ${way}`);
}

function commitCalled(name: string): string {
  try {
    return git('rev-parse', '--short', '--verify', '--quiet', `${name}^{commit}`);
  } catch (cause) {
    throw new UsageError(`there is no commit ${name} here`, { cause });
  }
}

function git(...args: string[]): string {
  const stdio = ['ignore', 'pipe', 'pipe'] as const;
  return execFileSync('git', args, {
    cwd: cloneFolder,
    encoding: 'utf8',
    stdio: [...stdio],
  }).trim();
}

/**
 * Gives another clone or worktree of this repository the packages that are installed here, by hard
 * links: npm replaces files and edits none, so a package that changes there stays as it is here.
 * Those of the workspace lead to that clone's own folders, which at another commit may be others.
 *
 * @throws where there can be no hard links, as on another file system; what was made stays there.
 */
export function linkPackages(folder: string): void {
  // npm puts some beside the package that asks for another version than most, or above several.
  const manifests = manifestsOf(cloneFolder);
  const folders = new Set(manifests.flatMap((file) => foldersAbove(file)));
  for (const each of folders) {
    const from = join(cloneFolder, each, 'node_modules');
    if (existsSync(from) && existsSync(join(folder, each))) {
      linkFolder(from, join(folder, each, 'node_modules'));
    }
  }
  const scope = join(folder, 'node_modules', '@triplock');
  rmSync(scope, { recursive: true, force: true });
  mkdirSync(scope);
  for (const file of manifestsOf(folder)) {
    const text = readFileSync(join(folder, file), 'utf8');
    const [, name] = /"name": "@triplock\/([^"]+)"/.exec(text) ?? [];
    if (name === undefined || existsSync(join(scope, name))) continue;
    symlinkSync(relative(scope, join(folder, dirname(file))), join(scope, name));
  }
}

function manifestsOf(clone: string): string[] {
  const words = ['-C', clone, 'ls-files', 'package.json', '*/package.json'];
  return execFileSync('git', words, { encoding: 'utf8' }).trim().split('\n');
}

/** Of `libs/stores/ledgers/package.json` four: itself, `libs/stores`, `libs` and the root. */
function foldersAbove(file: string): string[] {
  const folder = dirname(file);
  return folder === '.' ? [folder] : [folder, ...foldersAbove(folder)];
}

function linkFolder(from: string, to: string): void {
  mkdirSync(to, { recursive: true });
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [old, made] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) linkFolder(old, made);
    else if (entry.isSymbolicLink()) symlinkSync(readlinkSync(old), made);
    // npm writes it where it is, which would say here what is installed there.
    else if (entry.name === '.package-lock.json') copyFileSync(old, made);
    else linkSync(old, made);
  }
}
