import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import { loadSql, loadStatements, nameOfSql } from './load-sql.ts';
import pg from 'pg';
import { migrate, rolePassword, type MigrationSet } from './migrate.ts';
import { migrationSets } from './migration-sets.ts';
import { openEmptyDatabase } from './test/empty-database.ts';

/** A folder of migrations of one test's own. */
async function someMigrations(
  context: TestContext,
  files: Readonly<Record<string, string>>,
): Promise<MigrationSet & { write(file: string, sql: string): Promise<void>; path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'migrations-'));
  context.after(() => rm(path, { recursive: true }));
  const write = (file: string, sql: string) => writeFile(join(path, file), sql);
  for (const [file, sql] of Object.entries(files)) await write(file, sql);
  return { owner: 'example', schema: 'public', folder: pathToFileURL(`${path}/`), write, path };
}

test('every migration of the system runs on an empty database, and running them again does nothing', async (context) => {
  const { url } = await openEmptyDatabase(context);
  const files = await Promise.all(
    migrationSets.map(async ({ owner, folder }) =>
      (await readdir(folder))
        .filter((file) => file.endsWith('.sql'))
        .sort()
        .map((file) => ({ owner, file })),
    ),
  );
  assert.deepEqual(await migrate(url, migrationSets), files.flat());
  assert.deepEqual(await migrate(url, migrationSets), []);
});

test('two migrators at once take turns and run each file once', async (context) => {
  const { url, query } = await openEmptyDatabase(context);
  const set = await someMigrations(context, {
    '0001-first.sql': 'CREATE TABLE runs (n integer)',
    '0002-second.sql': 'INSERT INTO runs VALUES (1)',
  });
  const applied = await Promise.all(Array.from({ length: 4 }, () => migrate(url, [set])));
  assert.equal(applied.flat().length, 2);
  assert.deepEqual(await query('SELECT n FROM runs'), [{ n: 1 }]);
});

test('no lock is left in a session that a pooler would give to others', async (context) => {
  const { url, query } = await openEmptyDatabase(context);
  const looking = `SELECT count(*)::int AS held FROM pg_locks WHERE locktype = 'advisory'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
  const set = await someMigrations(context, {
    // As the file sees it: in a transaction, whose end lets go of the lock.
    '0001-first.sql': `CREATE TABLE seen AS ${looking}; COMMIT; BEGIN; INSERT INTO seen ${looking}`,
  });
  await migrate(url, [set]);
  assert.deepEqual(await query('SELECT held FROM seen'), [{ held: 1 }, { held: 0 }]);
});

test('a migrator that stands still keeps nobody from the table for long', async (context) => {
  const { url, query } = await openEmptyDatabase(context);
  const set = await someMigrations(context, {
    '0001-first.sql': `CREATE TABLE limits AS
      SELECT current_setting('idle_in_transaction_session_timeout') AS idle`,
  });
  await migrate(url, [set]);
  assert.deepEqual(await query('SELECT idle FROM limits'), [{ idle: '10s' }]);
});

test('a new file runs after those that ran before, in the schema of its owner', async (context) => {
  const { url, query } = await openEmptyDatabase(context);
  const set = await someMigrations(context, { '0001-first.sql': 'CREATE SCHEMA own' });
  await migrate(url, [set]);
  const next = { ...set, schema: 'own' };
  await set.write('0002-second.sql', 'CREATE TABLE things (n integer)');
  assert.deepEqual(await migrate(url, [next]), [{ owner: 'example', file: '0002-second.sql' }]);
  assert.deepEqual(await query('SELECT n FROM own.things'), []);
});

test('a file that was changed after it ran is refused, and nothing is touched', async (context) => {
  const { url, query } = await openEmptyDatabase(context);
  const set = await someMigrations(context, { '0001-first.sql': 'CREATE TABLE one (n integer)' });
  await migrate(url, [set]);
  await set.write('0001-first.sql', 'CREATE TABLE one (n bigint)');
  await set.write('0002-second.sql', 'CREATE TABLE two (n integer)');
  await assert.rejects(migrate(url, [set]), /example\/0001-first\.sql was changed/);
  await assert.rejects(query('SELECT FROM two'), { code: '42P01' });
});

test('a database of a newer version is refused', async (context) => {
  const { url } = await openEmptyDatabase(context);
  const set = await someMigrations(context, {
    '0001-first.sql': 'SELECT 1',
    '0002-second.sql': 'SELECT 2',
  });
  await migrate(url, [set]);
  await rm(join(set.path, '0002-second.sql'));
  await assert.rejects(migrate(url, [set]), /0002-second\.sql, which this version does not know/);
});

test('a database from before the baseline is refused with what to do, and nothing is touched', async (context) => {
  const { url, query } = await openEmptyDatabase(context);
  const set = await someMigrations(context, {
    '0001-first.sql': 'CREATE TABLE one (n integer)',
    '0002-second.sql': 'SELECT 2',
  });
  await migrate(url, [set]);
  await rm(join(set.path, '0001-first.sql'));
  await rm(join(set.path, '0002-second.sql'));
  await set.write('0001-baseline.sql', 'CREATE TABLE two (n integer)');
  await assert.rejects(
    migrate(url, [set]),
    /older version \(migration example\/0001-first\.sql\).*npm run down -- --volumes/,
  );
  await assert.rejects(query('SELECT FROM two'), { code: '42P01' });
});

test('a file that fails is rolled back whole, is named, and runs once it was mended', async (context) => {
  const { url, query } = await openEmptyDatabase(context);
  const set = await someMigrations(context, {
    '0001-first.sql': 'CREATE TABLE one (n integer)',
    '0002-second.sql': 'CREATE TABLE two (n integer); SELECT nonsense',
  });
  await assert.rejects(migrate(url, [set]), /example\/0002-second\.sql failed/);
  assert.deepEqual(await query('SELECT n FROM one'), []);
  await assert.rejects(query('SELECT FROM two'), { code: '42P01' });
  await set.write('0002-second.sql', 'CREATE TABLE two (n integer)');
  assert.deepEqual(await migrate(url, [set]), [{ owner: 'example', file: '0002-second.sql' }]);
});

test('a migration that waits for a table lets the others through meanwhile', async (context) => {
  const { url, query } = await openEmptyDatabase(context);
  const set = await someMigrations(context, { '0001-first.sql': 'CREATE TABLE one (n integer)' });
  await migrate(url, [set]);
  await set.write('0002-second.sql', 'ALTER TABLE one ADD COLUMN m integer');
  const reader = new pg.Client({ connectionString: url });
  await reader.connect();
  try {
    await reader.query('BEGIN; SELECT FROM one');
    const few = { waitMs: 50, restMs: 10, triesMax: 2 };
    await assert.rejects(migrate(url, [set], few), /0002-second\.sql got no lock in 2 tries/);

    const migrated = migrate(url, [set], { waitMs: 200, restMs: 10, triesMax: 1_000 });
    const isWaiting = `SELECT FROM pg_stat_activity
      WHERE application_name = 'migrate' AND wait_event_type = 'Lock' AND datname = current_database()`;
    while ((await query(isWaiting)).length === 0);
    assert.deepEqual(await query('SELECT n FROM one'), []);
    await reader.query('COMMIT');
    assert.deepEqual(await migrated, [{ owner: 'example', file: '0002-second.sql' }]);
  } finally {
    await reader.end();
  }
});

test("roles' passwords follow from the owner's, and from nothing that is no secret", () => {
  const owner = (password: string) => `postgres://owner${password}@db/triplock`;
  const password = rolePassword(owner(':one'), 'triplock_ledger');
  assert.match(password, /^[\w-]{43}$/);
  assert.equal(rolePassword(owner(':one'), 'triplock_ledger'), password);
  assert.notEqual(rolePassword(owner(':two'), 'triplock_ledger'), password);
  assert.throws(() => rolePassword(owner(''), 'triplock_ledger'), /has no password.*give it one/);
});

function aModuleBeside(t: TestContext, sql: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'statements-'));
  t.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'rows.sql'), sql);
  return pathToFileURL(join(folder, 'module.ts')).href;
}

const twoStatements = `-- The rows.

-- name: findRow
-- $1 id.
SELECT 1;

-- name: dropRow
DELETE FROM rows;
`;

test('each statement of a file is found by its name, with its contract', (t) => {
  const sql = loadStatements(aModuleBeside(t, twoStatements), 'rows.sql', ['findRow', 'dropRow']);
  assert.equal(sql.findRow, '-- $1 id.\nSELECT 1;');
  assert.equal(sql.dropRow, 'DELETE FROM rows;');
  assert.equal(nameOfSql(sql.dropRow), 'drop-row');
});

test('a list of columns takes the place of its name, and one that nobody gives is named', (t) => {
  const url = aModuleBeside(t, "SELECT payment.:row, 'at 10:30'::text FROM payments AS payment");
  const sql = loadSql(url, 'rows.sql', { row: (of) => `${of}.id, ${of}.state` });
  assert.equal(sql, "SELECT payment.id, payment.state, 'at 10:30'::text FROM payments AS payment");
  assert.throws(() => loadSql(url, 'rows.sql'), /rows\.sql: nobody says what payment\.:row is/);
});

test('a statement that is missing, and one that nobody asks for, are named', (t) => {
  const url = aModuleBeside(t, twoStatements);
  assert.throws(() => loadStatements(url, 'rows.sql', ['findRow', 'other']), /no .* named other/);
  assert.throws(() => loadStatements(url, 'rows.sql', ['findRow']), /nobody asks for dropRow/);
});
