import { randomBytes } from 'node:crypto';
import { after } from 'node:test';
import { migrate } from '@triplock/postgres';
import { createTestDatabase } from '@triplock/testing';
import { openPostgresOnce, onceMigrations } from './postgres-once.ts';

const created = await createTestDatabase({ after });
await migrate(created.url(), [{ owner: 'once', schema: 'public', folder: onceMigrations }]);

/** A database with the table `once`, and one for a test's effects. */
export const database = created.open();
await database.query('CREATE TABLE effects (scope text, what text)');

export const store = openPostgresOnce(database);

/** A step of a scope of its own that nothing ends while the test runs. */
export function aStep() {
  const scope = `test-${randomBytes(8).toString('hex')}`;
  const times = { leaseMs: 3_600_000, keepMs: 86_400_000 };
  return { scope, key: 'one key', fingerprint: 'one request', ...times };
}

/** Makes a key older: its lease and its life end that much sooner. */
export async function ageKey({ scope }: { scope: string }, ms: number): Promise<void> {
  await database.query(
    `UPDATE once SET lease_until = lease_until - $2 * interval '1 ms',
       expires_at = expires_at - $2 * interval '1 ms' WHERE scope = $1`,
    [scope, ms],
  );
}
