import { createHash } from 'node:crypto';
import type { TestFile } from './pool.ts';

/** How to order: by chance, as a seed has it, or by how long each took. */
export type Order = { durations: Readonly<Record<string, number>>; seed?: number };

/**
 * The files in the order in which they begin: those of a lane by their names, all others the
 * longest first, so that none is left alone at the end, and first of all those that nobody has seen
 * run, where a service's own begin because they run it as a process; or in one order for each seed.
 */
export function inOrder(files: readonly TestFile[], { durations, seed }: Order): TestFile[] {
  if (seed !== undefined) {
    const turnOf = ({ path }: TestFile) => digest(`${seed} ${path}`);
    return files.toSorted((a, b) => turnOf(a).localeCompare(turnOf(b)));
  }
  const msOf = ({ path, lane }: TestFile) =>
    lane !== undefined ? 0 : (durations[path] ?? Number.POSITIVE_INFINITY);
  const unlikeAService = ({ path }: TestFile) => (path.endsWith('/main.test.ts') ? 0 : 1);
  return files.toSorted(
    (a, b) =>
      compare(msOf(b), msOf(a)) ||
      unlikeAService(a) - unlikeAService(b) ||
      a.path.localeCompare(b.path),
  );
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** As numbers are compared; a difference of two infinite ones would be none. */
function compare(a: number, b: number): number {
  return a === b ? 0 : a < b ? -1 : 1;
}
