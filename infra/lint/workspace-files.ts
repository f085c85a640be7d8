import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A file of the workspace by its path from the root, with `/` between folders. */
export type WorkspaceFile = { path: string; text: () => string };

/** The workspace's folder, with a separator at its end. */
export const root = fileURLToPath(new URL('../../', import.meta.url));
const notOurs = ['node_modules', '.git', '.nx', '.triplock'];

/**
 * Every file that belongs to the workspace, this one's unless another root is given: what was
 * installed or produced does not.
 */
export function workspaceFiles(from = root, folder = ''): WorkspaceFile[] {
  return readdirSync(join(from, folder), { withFileTypes: true })
    .filter(({ name }) => !notOurs.includes(name))
    .flatMap((entry) => {
      const path = folder + entry.name;
      if (entry.isDirectory()) return workspaceFiles(from, `${path}/`);
      return [{ path, text: () => readFileSync(join(from, path), 'utf8') }];
    });
}

/** Packages of partners' programs, which are installed and compiled apart from the workspace. */
const partners = 'e2e/clients/';

/** The folders that hold a package.json of the workspace, the root not among them. */
export function projectFolders(files: readonly WorkspaceFile[]): string[] {
  return files
    .filter(({ path }) => path.endsWith('/package.json') && !path.startsWith(partners))
    .map(({ path }) => path.slice(0, -'/package.json'.length));
}
