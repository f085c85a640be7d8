import { visitNotIgnoredFiles, type Tree } from '@nx/devkit';
import ts from 'typescript';

/** A name that a generator does not take; the message says why in one sentence. */
export class RefusedName extends Error {}

/** Which names a generator takes, as a pattern and in words. */
export type NameShape = { shape: RegExp; like: string };

/**
 * Refuses what is not a name, what JavaScript and SQL keep for themselves, and what something here
 * is called.
 *
 * @throws RefusedName
 */
export function refuseName(tree: Tree, name: string, { shape, like }: NameShape): void {
  if (!shape.test(name)) throw new RefusedName(`'${name}' is not a name here: it takes ${like}`);
  if (isReserved(name)) throw new RefusedName(`'${name}' is a word of JavaScript: take another`);
  if (sqlWords.has(name)) throw new RefusedName(`'${name}' is a word of SQL: take another`);
  if (takenNames(tree).has(name)) throw new RefusedName(`'${name}' is taken: take another name`);
}

/** What PostgreSQL takes for no name of a schema unless it is quoted: its reserved words. */
const sqlWords = new Set(
  `all analyse analyze and any array as asc asymmetric authorization binary both case cast check
  collate collation column concurrently constraint create cross deferrable desc distinct do end
  except fetch for foreign freeze from full grant group having ilike initially inner intersect into
  is isnull join lateral leading left like limit localtime localtimestamp natural not notnull null
  offset on only or order outer overlaps placing primary references returning right select similar
  some symmetric table tablesample then to trailing union unique user using variadic verbose when
  where window with`.split(/\s+/),
);

/** Every word that a file or folder here is named by: what is called so would be meant too. */
function takenNames(tree: Tree): Set<string> {
  const taken = new Set<string>();
  visitNotIgnoredFiles(tree, '.', (path) => {
    for (const part of path.split('/')) {
      taken.add(part);
      for (const word of part.split(/[-.]/)) taken.add(word);
    }
  });
  return taken;
}

function isReserved(name: string): boolean {
  const word = name.replaceAll('-', '_');
  const scanner = ts.createScanner(ts.ScriptTarget.Latest, true, ts.LanguageVariant.Standard, word);
  return scanner.scan() !== ts.SyntaxKind.Identifier;
}
