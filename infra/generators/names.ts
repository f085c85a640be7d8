import { visitNotIgnoredFiles, type Tree } from '@nx/devkit';
import { type Kind, refusalOf } from './names.mjs';

/** A name that a generator does not take; the message says why in one sentence. */
export class RefusedName extends Error {}

/**
 * Refuses what is not a name, what JavaScript and SQL keep for themselves, and what something here
 * is called.
 *
 * @throws RefusedName
 */
export function refuseName(tree: Tree, kind: Kind, name: string): void {
  const refusal = refusalOf(kind, name, pathsOf(tree));
  if (refusal !== undefined) throw new RefusedName(refusal);
}

/** Of every file that git would keep. */
export function pathsOf(tree: Tree): string[] {
  const paths: string[] = [];
  visitNotIgnoredFiles(tree, '.', (path) => void paths.push(path));
  return paths;
}
