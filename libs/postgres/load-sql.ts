import { readFileSync } from 'node:fs';
import { basename } from 'node:path';

const names = new Map<string, string>();

/**
 * The text of a `.sql` file beside the module that names it: `loadSql(import.meta.url,
 * 'post.sql')`. Read once at import, so that a missing file fails the boot and not a payment.
 */
export function loadSql(moduleUrl: string, file: string): string {
  const text = readFileSync(new URL(file, moduleUrl), 'utf8');
  names.set(text, basename(file, '.sql'));
  return text;
}

/** What a trace calls a statement: its file, or its first word when it is none, as of `BEGIN`. */
export function nameOfSql(text: string): string {
  return names.get(text) ?? /\w+/.exec(text)?.[0].toUpperCase() ?? 'statement';
}
