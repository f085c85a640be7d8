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
import { cloneFolder } from './home.ts';

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
