import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import pg from 'pg';
import { openDatabase, type Database } from '../pool.ts';
import { testServerUrl } from './config.ts';

/** A database of one test's own with nothing in it, dropped after the test. Gives its URL. */
async function createEmptyDatabase(context: TestContext): Promise<string> {
  const name = `test_${randomBytes(8).toString('hex')}`;
  const server = await testServerUrl();
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

/** Streams the server's log from now on, as a standby or a backup of that name does. */
export async function streamFrom(
  context: TestContext,
  { url, name }: { url: string; name: string },
): Promise<'streaming' | 'not let in'> {
  const at = new URL(url);
  at.searchParams.set('replication', 'true');
  at.searchParams.set('application_name', name);
  const client = new pg.Client({ connectionString: at.href });
  try {
    await client.connect();
  } catch (error) {
    // invalid_authorization_specification: pg_hba.conf has no line for whoever streams.
    if ((error as pg.DatabaseError).code === '28000') return 'not let in';
    throw error;
  }
  context.after(() => client.end());
  const { rows } = await client.query<{ xlogpos: string }>('IDENTIFY_SYSTEM');
  // It is answered when the stream ends, which is with the connection.
  client.query(`START_REPLICATION PHYSICAL ${rows[0]!.xlogpos}`).catch(() => undefined);
  return 'streaming';
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

/** A server that says one thing to whoever connects, once it was spoken to; its URL. */
export async function serverThatSays(
  context: TestContext,
  greet?: (socket: Socket) => void,
): Promise<string> {
  const server = createServer((socket) => socket.once('data', () => greet?.(socket)));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  context.after(() => void server.close());
  return `postgres://nobody@127.0.0.1:${(server.address() as AddressInfo).port}/nothing`;
}
