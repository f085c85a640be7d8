import { readFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { stations, type RanFiles } from './payment-files.ts';

const root = resolve(import.meta.dirname, '../..');
const page = 'docs/journey.md';

/** The files that docs/journey.md leads through in its table, in its order. */
export function pageFiles(): string[] {
  const text = readFileSync(join(root, page), 'utf8');
  const rows = text.split('\n').filter((line) => /^\|\s*\d+\s*\|/.test(line));
  return rows.flatMap((row) => /\]\(\.\.\/([^)#]+)\)/.exec(row)?.[1] ?? []);
}

/**
 * What the page names that did not happen: a file that did not run for the payment, or one that ran
 * in a service before the one that the page has reached. Empty when the page is true.
 */
export function untrueSteps(named: readonly string[], ran: RanFiles): string[] {
  if (named.length === 0) return [`${page}: its table names no file`];
  const wrong: string[] = [];
  let reached = 0;
  for (const file of named) {
    const at = stationsOf(file, ran);
    const next = at.find((station) => station >= reached);
    if (at.length === 0) wrong.push(`${page}: ${file} did not run for the payment`);
    else if (next === undefined) wrong.push(`${page}: ${file} runs before the step above it`);
    else reached = next;
  }
  return wrong;
}

/** A statement or a script runs where a file ran that loads it by its name. */
function stationsOf(file: string, ran: RanFiles): number[] {
  const isCode = file.endsWith('.ts');
  return stations.flatMap((name, station) => {
    const runs = isCode
      ? ran[name].includes(file)
      : ran[name].some((each) => loads(each, basename(file)));
    return runs ? [station] : [];
  });
}

function loads(path: string, name: string): boolean {
  return readFileSync(join(root, path), 'utf8').includes(name);
}
