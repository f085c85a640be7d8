import { randomBytes } from 'node:crypto';
import type { TestContext } from 'node:test';
import pg from 'pg';
import { openDatabase, type Database } from '../pool.ts';
import { testServerUrl } from './config.ts';

/** A database of one test's own with nothing in it, dropped after the test. Gives its URL. */
async function createEmptyDatabase(context: TestContext): Promise<string> {
  const name = `test_${randomBytes(8).toString('hex')}`;
  const server = testServerUrl();
  await runOnce(server, `CREATE DATABASE ${name}`);
  context.after(() => runOnce(server, `DROP DATABASE ${name} WITH (FORCE)`));
  const url = new URL(server);
  url.pathname = `/${name}`;
  return url.href;
}

/** A pool on an empty database, closed after the test. */
export async function openEmptyDatabase(context: TestContext): Promise<Database & { url: string }> {
  const url = await createEmptyDatabase(context);
  const onIdleError = () => undefined; // DROP DATABASE ends idle connections, which is no news here.
  const database = openDatabase({ url, applicationName: 'test', onIdleError });
  context.after(() => database.close());
  return { ...database, url };
}

async function runOnce(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
