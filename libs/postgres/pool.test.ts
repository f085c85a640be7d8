import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { checkDurability, PostgresDurabilityError, readDurability } from './durability.ts';
import { databaseErrorKind, openDatabase, type DatabaseOptions, type Queryable } from './pool.ts';
import { SessionLimitsError } from './session-limits.ts';
import { serverThatSays, openEmptyDatabase, streamFrom } from './test/empty-database.ts';
import { openForgetfulWay } from './test/pooler.ts';

test('a transaction commits what its work wrote', async (context) => {
  const database = await openEmptyDatabase(context);
  await database.query('CREATE TABLE things (n integer)');
  const result = await database.transaction(async (tx) => {
    await tx.query('INSERT INTO things VALUES ($1)', [7]);
    return 'done';
  });
  assert.equal(result, 'done');
  assert.deepEqual(await database.query('SELECT n FROM things'), [{ n: 7 }]);
});

test('a transaction whose work throws writes nothing, and its connection is used again', async (context) => {
  const database = await openEmptyDatabase(context);
  await database.query('CREATE TABLE things (n integer)');
  for (let n = 0; n < 20; n += 1) {
    await assert.rejects(
      database.transaction(async (tx) => {
        await tx.query('INSERT INTO things VALUES (7)');
        throw new Error('changed its mind');
      }),
      /changed its mind/,
    );
  }
  assert.deepEqual(await database.query('SELECT n FROM things'), []);
});

test('a transaction whose connection dies rejects, and the next one gets a new connection', async (context) => {
  const database = await openEmptyDatabase(context);
  await assert.rejects(
    database.transaction(async (tx) => {
      const [own] = await tx.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
      await database.query('SELECT pg_terminate_backend($1)', [own!.pid]);
      await tx.query('SELECT 1');
    }),
  );
  assert.deepEqual(await database.transaction((tx) => tx.query('SELECT 1 AS n')), [{ n: 1 }]);
});

test('who listens hears what others notify, until told to stop or the connection is lost', async (context) => {
  const database = await openEmptyDatabase(context);
  const stopping = new AbortController();
  let heard = 0;
  const next = async (count: number) => {
    while (heard < count) await new Promise(setImmediate);
  };
  const listening = database.listen('Things', () => (heard += 1), stopping.signal);
  await next(1);
  await database.query(`SELECT pg_notify('Things', '')`);
  await next(2);
  stopping.abort();
  await listening;
  const calledOff = new AbortController();
  const connecting = database.listen('Things', () => undefined, calledOff.signal);
  calledOff.abort();
  await connecting;

  const lost = database.listen('Things', () => (heard += 1), new AbortController().signal);
  await next(3);
  await Promise.all([
    assert.rejects(lost),
    database.query(`
      SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND query LIKE 'LISTEN%'`),
  ]);
  assert.deepEqual(await database.query('SELECT 1 AS n'), [{ n: 1 }]);
});

test('the server refuses every write by connections that only read', async (context) => {
  const { url, ...owner } = await openEmptyDatabase(context);
  await owner.query('CREATE TABLE things (n integer)');
  const onIdleError = () => undefined;
  const database = openDatabase({ url, applicationName: 'test', readOnly: true, onIdleError });
  try {
    const write = 'INSERT INTO things VALUES (7)';
    await assert.rejects(database.query(write), /read-only transaction/);
    await assert.rejects(
      database.transaction((tx) => tx.query(write)),
      /read-only transaction/,
    );
    assert.deepEqual(await database.query('SELECT n FROM things'), []);
  } finally {
    await database.close();
  }
});

test('a session that the server does not hold to its limits is refused, and says what to do', async (context) => {
  const { url } = await openEmptyDatabase(context);
  const forgetful = await openForgetfulWay(context, url);
  const open = (wish: Partial<DatabaseOptions>) => {
    const onIdleError = () => undefined;
    const database = openDatabase({
      url: forgetful,
      applicationName: 'test',
      onIdleError,
      ...wish,
    });
    context.after(() => database.close());
    return database;
  };
  await assert.rejects(
    open({}).ping(),
    /\(statement_timeout is 0, idle_in_transaction_session_timeout is 0\).*ALTER ROLE \w+ SET statement_timeout = '10000ms'/,
  );
  await assert.rejects(
    open({ readOnly: true }).query('SELECT 1'),
    /default_transaction_read_only is off/,
  );
  await open({ url }).ping();
});

test('limits that a role holds are as good as those that a session was asked to hold', async (context) => {
  const { url, query } = await openEmptyDatabase(context);
  const name = new URL(url).pathname.slice(1);
  // What is set for one database goes with it.
  const role = `ALTER ROLE CURRENT_USER IN DATABASE "${name}" SET`;
  await query(`${role} statement_timeout = '9s'`);
  await query(`${role} idle_in_transaction_session_timeout = '10s'`);
  const forgetful = await openForgetfulWay(context, url);
  const limits = { url: forgetful, applicationName: 'test', onIdleError: () => undefined };
  const database = openDatabase(limits);
  context.after(() => database.close());
  await database.ping();
  const reader = openDatabase({ ...limits, readOnly: true });
  context.after(() => reader.close());
  await assert.rejects(reader.ping(), SessionLimitsError);
  await query(`${role} default_transaction_read_only = on`);
  await reader.ping();
  const shorter = openDatabase({ ...limits, statementTimeoutMs: 5_000 });
  context.after(() => shorter.close());
  await assert.rejects(shorter.ping(), /statement_timeout is 9000/);
});

test('a transaction whose client stands still is ended, and the row that it held is free', async (context) => {
  const owner = await openEmptyDatabase(context);
  await owner.query('CREATE TABLE things (n integer)');
  await owner.query('INSERT INTO things VALUES (7)');
  const { url } = owner;
  const limits = { applicationName: 'test', idleInTransactionMs: 100 };
  const database = openDatabase({ url, ...limits, onIdleError: () => undefined });
  context.after(() => database.close());
  const [holding, standing] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const stood = database.transaction(async (tx) => {
    await tx.query('UPDATE things SET n = 8');
    holding.resolve();
    await standing.promise;
    await tx.query('SELECT 1');
  });
  stood.catch(() => undefined);
  await holding.promise;
  await owner.query('UPDATE things SET n = n + 2');
  standing.resolve();
  await assert.rejects(stood);
  assert.deepEqual(await owner.query('SELECT n FROM things'), [{ n: 9 }]);
});

test('money comes back as bigint and times as dates', async (context) => {
  const database = await openEmptyDatabase(context);
  const [row] = await database.query<{ amount: bigint; at: Date }>(
    `SELECT 9007199254740993::bigint AS amount, '2026-01-02T03:04:05.678Z'::timestamptz AS at`,
  );
  assert.deepEqual(row, {
    amount: 9_007_199_254_740_993n,
    at: new Date('2026-01-02T03:04:05.678Z'),
  });
});

test('an idle connection that dies is reported and replaced', async (context) => {
  const killer = await openEmptyDatabase(context);
  const reported = Promise.withResolvers<Error>();
  const database = openDatabase({
    url: killer.url,
    applicationName: 'victim',
    onIdleError: reported.resolve,
  });
  await database.ping();
  await killer.query(`
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'victim'`);
  assert.match((await reported.promise).message, /terminating connection/);
  await database.ping();
  await database.close();
});

test('a statement that takes too long is ended', async (context) => {
  const { url } = await openEmptyDatabase(context);
  const database = openDatabase({
    url,
    applicationName: 'test',
    statementTimeoutMs: 50,
    onIdleError: (error) => assert.fail(error),
  });
  await assert.rejects(database.query('SELECT pg_sleep(60)'), { code: '57014' });
  await database.ping();
  await database.close();
});

test('a server that accepts and says nothing is given up on', async (context) => {
  const database = openDatabase({
    url: await serverThatSays(context),
    applicationName: 'test',
    connectTimeoutMs: 100,
    onIdleError: (error) => assert.fail(error),
  });
  await assert.rejects(database.ping(), /timeout/);
  await database.close();
});

test('a session that the server ends at the very moment when it is handed out ends no process', async (context) => {
  // Authenticated, ready, and at once a FATAL error.
  const ended = 'R\0\0\0\x08\0\0\0\0Z\0\0\0\x05IE\0\0\0\x1aSFATAL\0C57P01\0Mended\0\0';
  const url = await serverThatSays(context, (socket) => socket.end(ended));
  const onIdleError = () => undefined;
  for (const checked of [{}, { onConnect: async () => undefined }]) {
    const database = openDatabase({ url, applicationName: 'test', onIdleError, ...checked });
    await assert.rejects(database.transaction(async () => assert.fail('there is no session')));
    await assert.rejects(database.listen('Things', assert.fail, new AbortController().signal));
    await database.close();
  }
});

test('a statement is kept prepared where that is asked for, and only there', async (context) => {
  const { url } = await openEmptyDatabase(context);
  for (const [statements, kept] of [
    ['kept-prepared', 1],
    ['planned-each-time', 0],
  ] as const) {
    const onIdleError = () => undefined;
    const settings = { url, applicationName: 'test', connectionsMax: 1, onIdleError };
    const database = openDatabase({ ...settings, statements });
    context.after(() => database.close());
    for (const number of [1n, 2n]) {
      const rows = await database.query('SELECT $1::int8 AS number', [number]);
      assert.deepEqual(rows, [{ number }]);
    }
    const found = await database.query(
      `SELECT FROM pg_prepared_statements WHERE statement LIKE 'SELECT $1::int8%'`,
    );
    assert.equal(found.length, kept);
  }
});

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

test('of two transactions in a deadlock, one gets an error that is worth another try', async (context) => {
  const database = await openEmptyDatabase(context);
  await database.query(`CREATE TABLE things AS SELECT 1 AS n UNION SELECT 2`);
  const bothHoldOne = Promise.withResolvers<void>();
  let holding = 0;
  const lockInOrder = (first: number, second: number) =>
    database.transaction(async (tx) => {
      await lock(tx, first);
      if ((holding += 1) === 2) bothHoldOne.resolve();
      await bothHoldOne.promise;
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

test('a server that may lose acknowledged commits is refused, with what to set', () => {
  const row = { role: 'r', fsync: 'off', synchronous_commit: 'on' };
  assert.throws(() => checkDurability(row), /fsync = off .* role r, .* set fsync to on/);
});

/** A pool of one connection that is looked at when it is made. */
function aCheckedPool(context: TestContext, { url, options }: { url: string; options?: string }) {
  const at = new URL(url);
  if (options !== undefined) at.searchParams.set('options', options);
  const pool = openDatabase({
    url: at.href,
    applicationName: 'test',
    connectionsMax: 1,
    onConnect: readDurability,
    onIdleError: () => undefined,
  });
  context.after(() => pool.close());
  return pool;
}

test('no connection whose commits do not wait for the disk is used, whoever set it so', async (context) => {
  const { url, ...owner } = await openEmptyDatabase(context);
  const lasting = aCheckedPool(context, { url });
  assert.deepEqual(await readDurability(lasting), { asynchronousStandbys: 0 });
  const bySession = aCheckedPool(context, { url, options: '-c synchronous_commit=off' });
  await assert.rejects(bySession.query('SELECT 1'), PostgresDurabilityError);

  const { pathname } = new URL(url);
  await owner.query(`ALTER DATABASE "${pathname.slice(1)}" SET synchronous_commit = off`);
  const byDatabase = aCheckedPool(context, { url });
  await assert.rejects(
    byDatabase.transaction(async () => undefined),
    PostgresDurabilityError,
  );
  await owner.query(`ALTER DATABASE "${pathname.slice(1)}" RESET synchronous_commit`);
  // Refused connections do not use up the pool.
  await byDatabase.ping();
});

test('a standby is counted by whatever role asks, and a backup that streams is none', async (context) => {
  const { url } = await openEmptyDatabase(context);
  const pool = aCheckedPool(context, { url, options: '-c role=pg_signal_backend' });
  const backup = await streamFrom(context, { url, name: 'pg_receivewal' });
  if (backup === 'not let in')
    return context.skip('pg_hba.conf has no line for replication from here');
  assert.deepEqual(await readDurability(pool), { asynchronousStandbys: 0 });
  await streamFrom(context, { url, name: 'a-standby' });
  assert.deepEqual(await readDurability(pool), { asynchronousStandbys: 1 });
});
