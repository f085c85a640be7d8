import { readFileSync } from 'node:fs';
import { basename } from 'node:path';

const names = new Map<string, string>();

/** By name, the columns that `alias.:name` stands for, each with the alias: `of.id, of.state`. */
export type ColumnLists = Readonly<Record<string, (alias: string) => string>>;

/**
 * The text of a `.sql` file beside the module that names it: `loadSql(import.meta.url,
 * 'post.sql')`. Read once at import, so that a missing file fails the boot and not a payment. Where
 * it says `alias.:name`, the columns of that list take its place.
 */
export function loadSql(moduleUrl: string, file: string, lists: ColumnLists = {}): string {
  const text = readSql(moduleUrl, file, lists);
  names.set(text, basename(file, '.sql'));
  return text;
}

function readSql(moduleUrl: string, file: string, lists: ColumnLists): string {
  const text = readFileSync(new URL(file, moduleUrl), 'utf8');
  return text.replaceAll(/\b(\w+)\.:(\w+)/g, (placeholder, alias: string, name: string) => {
    const list = lists[name];
    if (list === undefined) throw new Error(`${file}: nobody says what ${placeholder} is`);
    return list(alias);
  });
}

const nameLine = /^-- name: (\w+)$/m;
/** Where a part begins or ends that `npm run generate` writes: no part of any statement. */
const markLine = /^ *-- --- .*\n/gm;

/**
 * The statements of a text that holds several, by their names; none of one that names none.
 *
 * @throws when two have one name.
 */
export function statementsIn(text: string): ReadonlyMap<string, string> {
  // What comes before the first name is the file's own comment.
  const [, ...parts] = text.replaceAll(markLine, '').split(nameLine);
  const found = new Map<string, string>();
  for (let at = 0; at < parts.length; at += 2) {
    if (found.has(parts[at]!)) throw new Error(`two statements are named ${parts[at]}`);
    found.set(parts[at]!, parts[at + 1]!.trim());
  }
  return found;
}

/**
 * The statements of a `.sql` file that holds several of one table, each below a line
 * `-- name: itsName`: `loadStatements(import.meta.url, 'deliveries.sql', ['lease', 'record'])`.
 *
 * @throws at import when a name is missing, or the file holds one that was not asked for.
 */
export function loadStatements<const Name extends string>(
  moduleUrl: string,
  file: string,
  wanted: readonly Name[],
  lists: ColumnLists = {},
): Readonly<Record<Name, string>> {
  const found = statementsIn(readSql(moduleUrl, file, lists));
  const missing = wanted.filter((name) => !found.has(name));
  const unused = [...found.keys()].filter((name) => !(wanted as readonly string[]).includes(name));
  if (missing.length > 0) throw new Error(`${file} has no statement named ${missing.join(', ')}`);
  if (unused.length > 0) throw new Error(`${file}: nobody asks for ${unused.join(', ')}`);
  // As a file is called, so that a trace shows one spelling.
  for (const [name, text] of found) names.set(text, name.replace(/[A-Z]/g, '-$&').toLowerCase());
  return Object.fromEntries(found) as Record<Name, string>;
}

/** What a trace calls a statement: its file, its name in one, or else its first word. */
export function nameOfSql(text: string): string {
  return names.get(text) ?? /\w+/.exec(text)?.[0].toUpperCase() ?? 'statement';
}
