import { migrate, openDatabase, type Database } from '@triplock/postgres';
import { createTestDatabase, type Cleanup } from '@triplock/testing';
import type { OnceKey } from '../once.ts';
import { openPostgresOnce, onceMigrations } from '../postgres-once.ts';
import { answerTimeoutMs } from './once-under-test.ts';

/** A database with the table `once`, and one for a test's effects. */
export type OnceDatabase = {
  /** Its URL, for ways of a test's own. */
  databaseUrl: string;
  database: Database;
  store: ReturnType<typeof openPostgresOnce>;
  /** Makes a key older: its lease and its life end that much sooner. */
  ageKey(key: Pick<OnceKey, 'scope'>, ms: number): Promise<void>;
};

/** Makes one for a file's tests, and drops it after them. */
export async function createOnceDatabase(file: Cleanup): Promise<OnceDatabase> {
  const created = await createTestDatabase(file);
  await migrate(created.url(), [{ owner: 'once', schema: 'public', folder: onceMigrations }]);
  const database = created.open();
  await database.query('CREATE TABLE effects (scope text, what text)');
  return {
    databaseUrl: created.url(),
    database,
    store: openPostgresOnce(database),
    ageKey: async ({ scope }, ms) => {
      await database.query(
        `UPDATE once SET lease_until = lease_until - $2 * interval '1 ms',
           expires_at = expires_at - $2 * interval '1 ms' WHERE scope = $1`,
        [scope, ms],
      );
    },
  };
}

/** Another pool of the database, by the URL that is given, closed after the test. */
export function openWay(t: Cleanup, url: string): Database {
  const onIdleError = () => undefined; // A way that is cut breaks them, which is no news here.
  const limits = { connectTimeoutMs: answerTimeoutMs, statementTimeoutMs: answerTimeoutMs };
  const way = openDatabase({ url, applicationName: 'test', onIdleError, ...limits });
  t.after(() => way.close());
  return way;
}
