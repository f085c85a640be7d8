import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import {
  closeDatabase,
  migrate,
  migrationSets,
  openForCommand,
  rolePassword,
  type Database,
  type DatabaseRole,
} from '@triplock/postgres';
import pg from 'pg';
import { eventually } from './eventually.ts';
import type { Cleanup } from './isolation.ts';
import { testPart } from './parts.ts';
import { createStatementRelay, type StatementRelay } from './relay.ts';

/** A migrated database of one test's own. */
export type TestDatabase = {
  /** The URL as one of the roles, or as the owner when none is named. */
  url(role?: DatabaseRole): string;
  /** A pool as that role, closed after the test. */
  open(role?: DatabaseRole): Database;
  /** The same by a way that can lose the server's answers. */
  openByRelay(role: DatabaseRole): Promise<{ database: Database; relay: StatementRelay }>;
};

// Only makers of test databases take this lock, in the server's own `postgres` database.
const templateLock = 7_240_511_804;

/**
 * Makes a fresh database with every migration applied and drops it after the test. The first call
 * migrates a template, later ones copy it, which takes a fraction of a second.
 */
export async function createTestDatabase(test: Cleanup): Promise<TestDatabase> {
  const postgres = await testPart('postgres');
  const name = `test_${randomBytes(8).toString('hex')}`;
  const template = await prepareTemplate(postgres);
  await asOwner(postgres, (client) =>
    // The other way, the usual one, writes every page into the log: four times the work.
    client.query(`CREATE DATABASE ${name} TEMPLATE ${template} STRATEGY file_copy`),
  );
  // A template does not pass the rights of a database on.
  await asOwner(urlOf(postgres, { database: name }), async (client) => {
    const query = async <Row extends object>(statement: string, values?: readonly unknown[]) =>
      (await client.query<Row>(statement, values && [...values])).rows;
    await closeDatabase({ query }, { copied: true });
    // As a worker does before anything is decided; nothing was told or posted of it yet.
    await client.query(
      'UPDATE ledger.continuity SET server = ledger.this_server(), posted_on = ledger.this_server()',
    );
  });
  const pools: Database[] = [];
  test.after(async () => {
    await Promise.all(pools.map((pool) => pool.close()));
    // The next test need not wait for it: the server makes a checkpoint first, of what all tests
    // wrote. The process does, and fails when it fails.
    asOwner(postgres, (client) => client.query(`DROP DATABASE ${name} WITH (FORCE)`)).catch(
      (error: unknown) => {
        process.exitCode = 1;
        process.stderr.write(`${name} was not dropped: ${String(error)}\n`);
      },
    );
  });

  const url = (role?: DatabaseRole) => urlOf(postgres, { database: name, role });
  const openAt = (address: string) => {
    const pool = openForCommand({ url: address, applicationName: 'test' });
    pools.push(pool);
    return pool;
  };
  return {
    url,
    open: (role) => openAt(url(role)),
    openByRelay: async (role) => {
      const relay = await createStatementRelay(test, url(role));
      return { database: openAt(relay.url), relay };
    },
  };
}

/** Ends the connection on which an application listens, and resolves once it listens on another. */
export async function loseListener(owner: Database, applicationName: string): Promise<void> {
  const listening = async () => {
    const found = await owner.query<{ pid: number }>(
      `SELECT pid FROM pg_stat_activity
       WHERE datname = current_database() AND application_name = $1 AND query LIKE 'LISTEN%'`,
      [applicationName],
    );
    return found[0]?.pid;
  };
  const first = await eventually(listening);
  await owner.query('SELECT pg_terminate_backend($1)', [first]);
  await eventually(async () => ((await listening()) ?? first) !== first);
}

async function prepareTemplate(postgres: string): Promise<string> {
  const template = `template_${migrationsDigest()}`;
  await asOwner(postgres, async (client) => {
    await client.query('SELECT pg_advisory_lock($1)', [templateLock]);
    const { rowCount } = await client.query('SELECT FROM pg_database WHERE datname = $1', [
      template,
    ]);
    if (rowCount !== 0) return;
    // Built under another name, so that a template half migrated is never copied.
    const draft = `draft_${randomBytes(8).toString('hex')}`;
    await client.query(`CREATE DATABASE ${draft}`);
    await migrate(urlOf(postgres, { database: draft }), migrationSets);
    const { rows } = await client.query<{ rolname: string }>(
      `SELECT rolname FROM pg_roles WHERE rolname LIKE 'triplock\\_%'`,
    );
    for (const { rolname } of rows) {
      await client.query(`ALTER ROLE ${rolname} PASSWORD '${rolePassword(postgres, rolname)}'`);
    }
    // Here, where makers take turns: one of two that change a role at once would fail.
    await client.query('ALTER ROLE triplock_copy LOGIN');
    await client.query(`ALTER DATABASE ${draft} RENAME TO ${template}`);
  });
  return template;
}

function migrationsDigest(): string {
  const hash = createHash('sha256');
  for (const { owner, folder } of migrationSets) {
    for (const file of readdirSync(folder).sort()) {
      hash.update(`${owner}/${file}`).update(readFileSync(new URL(file, folder)));
    }
  }
  return hash.digest('hex').slice(0, 16);
}

async function asOwner(url: string, work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

function urlOf(base: string, target: { database: string; role?: DatabaseRole }): string {
  const url = new URL(base);
  url.pathname = `/${target.database}`;
  if (target.role) {
    url.username = target.role;
    url.password = rolePassword(base, target.role);
  }
  return url.href;
}
