import assert from 'node:assert/strict';
import { test } from 'node:test';
import { databaseErrorKind } from './errors.ts';
import { openDatabase, type Queryable } from './pool.ts';
import { openEmptyDatabase } from './testing/empty-database.ts';

async function kindOf(attempt: Promise<unknown>): Promise<string> {
  return attempt.then(() => 'none', databaseErrorKind);
}

test('what can never be stored is the input’s fault', async (context) => {
  const database = await openEmptyDatabase(context);
  await database.query('CREATE TABLE things (n integer PRIMARY KEY CHECK (n > 0))');
  await database.query('INSERT INTO things VALUES (1)');
  const attempts: [string, unknown[]][] = [
    ['INSERT INTO things VALUES ($1)', [1]],
    ['INSERT INTO things VALUES ($1)', [0]],
    ['INSERT INTO things VALUES ($1)', [null]],
    ['INSERT INTO things VALUES ($1)', ['seven']],
    ['INSERT INTO things VALUES ($1)', [2n ** 40n]],
    ['SELECT $1::text', ['\u0000']],
    ['SELECT $1::timestamptz', ['0000-01-01T00:00:00Z']],
    [`SELECT $1::jsonb`, ['{"a":"\\u0000"}']],
  ];
  for (const [statement, parameters] of attempts) {
    assert.equal(await kindOf(database.query(statement, parameters)), 'data', statement);
  }
});

test('an outage, a deadlock and a time-out are worth trying again', async (context) => {
  const database = await openEmptyDatabase(context);
  const away = openDatabase({
    url: 'postgres://nobody@127.0.0.1:1/nothing',
    applicationName: 'test',
    onIdleError: (error) => assert.fail(error),
  });
  assert.equal(await kindOf(away.ping()), 'transient');
  await away.close();
  const timedOut = database.transaction(async (tx) => {
    await tx.query(`SET LOCAL statement_timeout = '20ms'`);
    await tx.query('SELECT pg_sleep(60)');
  });
  assert.equal(await kindOf(timedOut), 'transient');
  const lost = database.transaction((tx) =>
    tx.query('SELECT pg_terminate_backend(pg_backend_pid())'),
  );
  assert.equal(await kindOf(lost), 'transient');
  assert.equal(databaseErrorKind(Object.assign(new Error(), { code: 'EPIPE' })), 'transient');
  assert.equal(databaseErrorKind(new Error('Query read timeout')), 'transient');
});

test('of two transactions in a deadlock, one is told to try again', async (context) => {
  const database = await openEmptyDatabase(context);
  await database.query(`CREATE TABLE things AS SELECT 1 AS n UNION SELECT 2`);
  const bothHoldOne = barrier(2);
  const lockInOrder = (first: number, second: number) =>
    database.transaction(async (tx) => {
      await lock(tx, first);
      await bothHoldOne();
      await lock(tx, second);
    });
  const kinds = await Promise.all([kindOf(lockInOrder(1, 2)), kindOf(lockInOrder(2, 1))]);
  assert.deepEqual(kinds.sort(), ['none', 'transient']);
});

test('a missing table or a refused right is neither: it needs a person', async (context) => {
  const database = await openEmptyDatabase(context);
  assert.equal(await kindOf(database.query('SELECT FROM nothing')), 'bug');
  assert.equal(await kindOf(database.query('SELEC 1')), 'bug');
  const refused = database.query(`DO $$ BEGIN RAISE EXCEPTION 'history'; END $$`);
  assert.equal(await kindOf(refused), 'bug');
});

function lock(tx: Queryable, n: number): Promise<unknown> {
  return tx.query('SELECT FROM things WHERE n = $1 FOR UPDATE', [n]);
}

/** Resolves for all callers once as many as told have called. */
function barrier(callers: number): () => Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let left = callers;
  return () => {
    left -= 1;
    if (left === 0) resolve();
    return promise;
  };
}
