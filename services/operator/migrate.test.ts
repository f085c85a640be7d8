import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createInEmulator,
  dropFromEmulator,
  migrateSpanner,
  openSpanner,
  spannerMigrationSets,
} from '@triplock/ledger-spanner';
import { createTestDatabase, freePort, testNamespace, testSpanner } from '@triplock/testing';
import { runOperator } from './test/run-operator.ts';

const run = (url: string) => runOperator(['migrate', '--json'], { DATABASE_URL: url });

test('a database elsewhere is brought up to date once', async (t) => {
  const store = await createTestDatabase(t);
  await store.open().query(`DELETE FROM migrations.applied WHERE owner = 'auditor';
    DROP SCHEMA auditor CASCADE; CREATE SCHEMA auditor AUTHORIZATION CURRENT_USER;
    GRANT USAGE ON SCHEMA auditor TO triplock_auditor`);
  const { pathname } = new URL(store.url());
  await store.open().query(`GRANT CONNECT ON DATABASE "${pathname.slice(1)}" TO PUBLIC`);
  const first = await run(store.url());
  assert.equal(first.code, 0, first.stderr);
  const { postgres, spanner } = JSON.parse(first.stdout) as Record<string, { owner: string }[]>;
  assert.deepEqual([...new Set(postgres!.map(({ owner }) => owner))], ['auditor']);
  assert.deepEqual(spanner, []);
  // As a dump that was restored is, it was open to every role.
  const open = `SELECT FROM pg_database, aclexplode(datacl) AS granted
    WHERE datname = current_database() AND granted.grantee = 0`;
  assert.deepEqual(await store.open().query(open), []);
  assert.deepEqual(JSON.parse((await run(store.url())).stdout), { postgres: [], spanner: [] });
});

test('a ledger in Spanner is brought up to date as well', async (t) => {
  const [store, emulatorHost] = await Promise.all([createTestDatabase(t), testSpanner()]);
  const database = `projects/triplock/instances/tests/databases/${testNamespace()}`;
  const spannerDatabase = { database, emulatorHost };
  await createInEmulator(spannerDatabase);
  t.after(() => dropFromEmulator(spannerDatabase));
  await migrateSpanner(spannerDatabase, spannerMigrationSets);
  const spanner = await openSpanner(spannerDatabase);
  t.after(() => spanner.close());
  // As if nothing had been run: each statement of a migration does no harm a second time.
  await spanner.transaction(async (tx) => tx.write({ kind: 'deleteAll', table: 'migrations' }));
  const { code, stdout, stderr } = await runOperator(['migrate'], {
    DATABASE_URL: store.url(),
    SPANNER_DATABASE: spannerDatabase.database,
    SPANNER_EMULATOR_HOST: spannerDatabase.emulatorHost,
  });
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^postgres: ran 0 migrations\nspanner: ran [1-9]\d* migrations\n$/);
});

test('what is in the way is reported in one line, without the password, and nothing is touched', async (t) => {
  const store = await createTestDatabase(t);
  await store
    .open()
    .query(`INSERT INTO migrations.applied VALUES ('ledger', '9999-newer.sql', 'hash', now())`);
  const newer = await run(store.url());
  assert.equal(newer.code, 1);
  assert.match(
    newer.stderr,
    /^triplock migrate: .*9999-newer\.sql, which this version does not know/,
  );

  const away = await run(`postgres://owner:hunter2@127.0.0.1:${await freePort()}/triplock`);
  assert.equal(away.code, 1);
  assert.match(
    away.stderr,
    /^triplock migrate: postgres:\/\/127\.0\.0\.1:\d+\/triplock: .*ECONNREFUSED/,
  );
  for (const { stderr } of [newer, away]) assert.equal(stderr.trim().split('\n').length, 1, stderr);

  const { code, stderr } = await run('');
  assert.deepEqual(
    [code, stderr.trim()],
    [2, "triplock migrate: DATABASE_URL is not set: give the database's URL, as its owner"],
  );
});
