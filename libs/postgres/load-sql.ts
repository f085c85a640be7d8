import { readFileSync } from 'node:fs';

/**
 * The text of a `.sql` file beside the module that names it: `loadSql(import.meta.url, 'post.sql')`.
 * Read once at import, so that a missing file fails the boot and not a payment.
 */
export function loadSql(moduleUrl: string, file: string): string {
  return readFileSync(new URL(file, moduleUrl), 'utf8');
}
