import { readFileSync } from 'node:fs';

/**
 * The PostgreSQL of the tests, as a role that may create databases: the one that `npm test` started
 * (TRIPLOCK_TEST_ENDPOINTS names the file), else the one that other tests left running.
 */
export function testServerUrl(): string {
  const left = new URL('../../../.triplock/test/endpoints.json', import.meta.url);
  const file = process.env['TRIPLOCK_TEST_ENDPOINTS'] ?? left;
  return (JSON.parse(readFileSync(file, 'utf8')) as { postgres: string }).postgres;
}
