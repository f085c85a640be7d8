import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { CommandError } from '@triplock/command';

/** The clone that this lies in. */
export const root = resolve(import.meta.dirname, '../..');

/** A file that `npm run generate` writes, from the clone's root, and what belongs into it. */
export type GeneratedFile = { path: string; text: string };

/** Makes parts of a clone’s file anew, each between two marks; around them nothing changes. */
export function filledIn(clone: string) {
  return (path: string, parts: Readonly<Record<string, string[]>>): GeneratedFile => {
    let text = readFileSync(join(clone, path), 'utf8');
    for (const [part, lines] of Object.entries(parts)) text = fill(text, { path, part, lines });
    return { path, text };
  };
}

/** A page's lines behind its title. */
export function sectionsOf(text: string): string[] {
  return [...text.slice(text.indexOf('## ')).trimEnd().split('\n'), ''];
}

/** Puts lines between the marks of a part, indented as the first mark is. */
function fill(
  text: string,
  { path, part, lines }: { path: string; part: string; lines: readonly string[] },
): string {
  // A list of commands in a text has the comments of the shell.
  const isText = path.endsWith('.md') && lines[0] === '';
  const comment = /\.m?[tj]s$/.test(path)
    ? '//'
    : path.endsWith('.sql')
      ? '--'
      : isText
        ? '<!--'
        : '#';
  const begin = `${comment} --- ${part}, by npm run generate`;
  const end = `${comment} --- end of ${part}${isText ? ' -->' : ''}`;
  const found = new RegExp(`^( *)${begin}.*\\n[^]*?^ *${end}\\n`, 'm').exec(text);
  if (found === null) {
    throw new CommandError(`${path} lacks the marks '${begin}' and '${end}': put them back`);
  }
  const [whole, indent = ''] = found;
  const mark = whole.slice(0, whole.indexOf('\n'));
  const made = lines.map((line) => (line === '' ? '' : indent + line));
  return text.replace(whole, () => [mark, ...made, `${indent}${end}`, ''].join('\n'));
}
