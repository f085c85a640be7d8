import type { Tree } from '@nx/devkit';

/** Text for a file that is written by hand, beside an anchor of which there is one. */
export type Insertion = { file: string; text: string } & ({ before: string } | { after: string });

/** A file of the repository no longer reads as a generator expects; the message names it. */
export class LostAnchor extends Error {}

/**
 * Inserts all texts. Nx writes the tree only when a generator has ended well, so one anchor that is
 * gone leaves every file as it was.
 *
 * @throws LostAnchor
 */
export function insertAll(tree: Tree, insertions: readonly Insertion[]): void {
  for (const insertion of insertions) {
    const { file, text } = insertion;
    const anchor = 'before' in insertion ? insertion.before : insertion.after;
    const [head, tail, ...more] = tree.read(file, 'utf8')?.split(anchor) ?? [];
    if (head === undefined || tail === undefined || more.length > 0) {
      const times = tail === undefined ? 'no' : 'more than one';
      throw new LostAnchor(`${file} has ${times} '${anchor.trim()}', beside which a line belongs`);
    }
    const parts = 'before' in insertion ? [text, anchor] : [anchor, text];
    tree.write(file, [head, ...parts, tail].join(''));
  }
}
