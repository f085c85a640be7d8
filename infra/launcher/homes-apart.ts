import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const prefix = 'without-';

/** Where a system without something lives, for a while and beside the one of a home. */
export function homeWithout(home: string, what: string): string {
  return join(home, `${prefix}${what}`);
}

/** Those that are there now: a command that was killed could not remove its own. */
export function homesApart(home: string): string[] {
  if (!existsSync(home)) return [];
  const entries = readdirSync(home, { withFileTypes: true });
  return entries
    .filter((entry) => entry.isDirectory() && entry.name.startsWith(prefix))
    .map(({ name }) => join(home, name));
}
