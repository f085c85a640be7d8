import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { migrate, migrationSets, openForCommand, SessionLimitsError } from '@triplock/postgres';
import { createTestDatabase, eventually, freePort } from '@triplock/testing';
import { findPgbouncer } from '../test/pgbouncer.ts';

const { signal } = new AbortController();
const pgbouncer = await findPgbouncer(signal);

const ignored = 'statement_timeout,idle_in_transaction_session_timeout,options';

/**
 * PgBouncer in transaction mode before a database, as the roles of these URLs; its URL for each.
 */
async function openPooler(context: TestContext, file: string, urls: Record<string, string>) {
  const folder = mkdtempSync(join(tmpdir(), 'triplock-pgbouncer-'));
  const port = await freePort();
  const databases = Object.entries(urls).map(([name, url]) => {
    const { hostname, port: to, pathname, username, password } = new URL(url);
    const server = `host=${hostname} port=${to} dbname=${pathname.slice(1)}`;
    return `${name} = ${server} user=${username} password=${decodeURIComponent(password)}`;
  });
  const settings = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'any',
    pool_mode: 'transaction',
    // One session for all, so that what is left in it meets whoever comes next.
    default_pool_size: 1,
    ignore_startup_parameters: ignored,
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`);
  const ini = join(folder, 'pgbouncer.ini');
  writeFileSync(ini, ['[databases]', ...databases, '[pgbouncer]', ...lines, ''].join('\n'));
  chmodSync(folder, 0o755);
  // It refuses to run as root.
  const asNobody = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
  const child = spawn(file, [...asNobody, ini], { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => void (said += chunk.toString()));
  const ended = once(child, 'exit');
  context.after(async () => {
    child.kill('SIGKILL');
    await ended;
    rmSync(folder, { recursive: true });
  });
  const listening = { withinMs: 60_000, what: 'PgBouncer' };
  await eventually(async () => {
    if (child.exitCode !== null) throw new Error(said);
    return said.includes('process up');
  }, listening);
  return Object.fromEntries(
    Object.keys(urls).map((name) => [name, `postgres://anybody@127.0.0.1:${port}/${name}`]),
  );
}

async function aPooler(context: TestContext) {
  const store = await createTestDatabase(context);
  if (pgbouncer.outcome === 'missing') return undefined;
  const urls = { owner: store.url(), reader: store.url('triplock_console') };
  const pooled = await openPooler(context, pgbouncer.file, urls);
  const open = (url: string, readOnly = false) => {
    const database = openForCommand({ url, applicationName: 'test', readOnly });
    context.after(() => database.close());
    return database;
  };
  return { owner: store.open(), pooled, open };
}

const skip = pgbouncer.outcome === 'missing' && pgbouncer.why;

test(
  'a pooler that drops our limits is refused, and what a role holds holds through it',
  { skip },
  async (context) => {
    const { owner, pooled, open } = (await aPooler(context))!;
    await assert.rejects(open(pooled['reader']!, true).ping(), SessionLimitsError);
    const [{ name }] = (await owner.query('SELECT current_database() AS name')) as [
      { name: string },
    ];
    const role = `ALTER ROLE triplock_console IN DATABASE ${name} SET`;
    await owner.query(`${role} statement_timeout = '10s'`);
    await owner.query(`${role} idle_in_transaction_session_timeout = '10s'`);
    await owner.query(`${role} default_transaction_read_only = on`);
    // Sessions that are there keep what they had.
    await owner.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'triplock_console'
     AND datname = current_database()`,
    );
    const reader = open(pooled['reader']!, true);
    await eventually(async () => (await reader.ping(), true));
    await assert.rejects(
      reader.query('CREATE TABLE console.made (n integer)'),
      /read-only transaction/,
    );
  },
);

test(
  'a migration by a pooler leaves no lock in a session of it, and can be made again',
  { skip },
  async (context) => {
    const { owner, pooled } = (await aPooler(context))!;
    for (const _ of [1, 2]) assert.deepEqual(await migrate(pooled['owner']!, migrationSets), []);
    const locks = await owner.query(
      `SELECT FROM pg_locks WHERE locktype = 'advisory'
     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
    );
    assert.deepEqual(locks, []);
  },
);
