import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import {
  closeDatabase,
  connectionLimits,
  type DatabaseRole,
  limitConnections,
  OpenDatabaseError,
  openForCommand,
} from '@triplock/postgres';
import { createTestDatabase, testNamespace, testPart } from '@triplock/testing';
import { LauncherError } from '../errors.ts';
import { declarations } from '../services.ts';
import { databaseUrls, provisionDatabase, withDatabase } from './database.ts';
import { ledgerOf } from './ledger.ts';

async function aDatabase(context: TestContext) {
  const store = await createTestDatabase(context);
  const reported: string[] = [];
  const server = { url: store.url(), origin: 'given' } as const;
  const provision = () => provisionDatabase(server, (line) => reported.push(line));
  return { database: store.open(), provision, reported };
}

const refused = (sentence: RegExp) => (error: unknown) => {
  assert.ok(error instanceof LauncherError);
  assert.match(error.message, sentence);
  assert.doesNotMatch(error.message, /\n/);
  return true;
};

test('data of a newer version is refused in one sentence', async (context) => {
  const { database, provision } = await aDatabase(context);
  await database.query(
    `INSERT INTO migrations.applied (owner, file, sha256) VALUES ('ledger', '9999-later.sql', '')`,
  );
  await assert.rejects(
    provision(),
    refused(/has migration ledger\/9999-later.sql, which this version does not know/),
  );
});

test('data of a version before the baseline is refused, with what to do', async (context) => {
  const { database, provision } = await aDatabase(context);
  await database.query(
    `UPDATE migrations.applied SET file = '0001-ledger.sql'
     WHERE owner = 'ledger' AND file = '0001-baseline.sql'`,
  );
  await assert.rejects(
    provision(),
    refused(/made by an older version \(migration ledger\/0001-ledger.sql\).*down -- --volumes/),
  );
});

test('data whose migration was changed afterwards is refused in one sentence', async (context) => {
  const { database, provision } = await aDatabase(context);
  await database.query(
    `UPDATE migrations.applied SET sha256 = 'another' WHERE file = '0001-baseline.sql' AND owner = 'ledger'`,
  );
  await assert.rejects(
    provision(),
    refused(/migration ledger\/0001-baseline.sql was changed after it ran here/),
  );
});

test('a ledger stays where it is, and a new one is where it is asked for', () => {
  assert.equal(ledgerOf({}, undefined), 'postgres');
  assert.equal(ledgerOf({}, 'spanner'), 'spanner');
  const inSpanner = { ledger: 'spanner' as const };
  assert.equal(ledgerOf(inSpanner, undefined), 'spanner');
  assert.throws(() => ledgerOf(inSpanner, 'postgres'), LauncherError);
  const inPostgres = { ledger: 'postgres' as const };
  assert.throws(() => ledgerOf(inPostgres, 'spanner'), /does not move to spanner/);
});

const denied = { code: '42501' };
const insertPayment = 'INSERT INTO ledger.transactions (txn_id) VALUES (gen_random_uuid())';
const readSecrets = 'SELECT secrets FROM partners.webhook_endpoints';
const readKeys = 'SELECT FROM partners.api_keys';

/** What each role is refused: nothing of these is its work, and some is that of its neighbour. */
const forbidden: Readonly<Record<DatabaseRole, readonly string[]>> = {
  triplock_ledger: [
    `UPDATE ledger.outbox SET state = 'published'`,
    'UPDATE ledger.outbox_leases SET epoch = epoch + 1',
    `SELECT ledger.reap_outbox(interval '30 days', 1)`,
    'INSERT INTO ledger.copied (until_micros) VALUES (1)',
    'DELETE FROM ledger.transactions',
    'SELECT FROM notifier.deliveries',
    readKeys,
    readSecrets,
  ],
  triplock_dispatcher: [
    insertPayment,
    'SELECT FROM ledger.transactions',
    `UPDATE ledger.transactions SET state = 'succeeded'`,
    'INSERT INTO ledger.entries DEFAULT VALUES',
    'INSERT INTO ledger.outbox (event_id) VALUES (gen_random_uuid())',
    `UPDATE ledger.outbox SET payload = '{}'`,
    'DELETE FROM ledger.outbox',
    'SELECT FROM notifier.inbox',
    readKeys,
  ],
  triplock_copy: [
    'UPDATE ledger.outbox_leases SET epoch = epoch + 1',
    'INSERT INTO ledger.provider_events DEFAULT VALUES',
    'UPDATE ledger.entries SET amount = 1',
    'DELETE FROM ledger.copy_differences',
    'SELECT FROM auditor.accepted',
    readKeys,
  ],
  triplock_gateway: [
    insertPayment,
    'SELECT FROM ledger.outbox',
    'SELECT FROM notifier.deliveries',
    'INSERT INTO settlement.batches DEFAULT VALUES',
    'INSERT INTO partners.api_keys DEFAULT VALUES',
    readSecrets,
  ],
  triplock_claims: ['SELECT FROM ledger.transactions', 'DELETE FROM claims.claims', readKeys],
  triplock_partners: ['SELECT FROM ledger.transactions', 'SELECT FROM claims.claims'],
  triplock_notifier: [
    'SELECT FROM ledger.transactions',
    'UPDATE notifier.deliveries SET body = body',
    'DELETE FROM notifier.deliveries',
    'DELETE FROM notifier.inbox',
    'SELECT FROM settlement.batches',
    readKeys,
  ],
  triplock_operator: [
    insertPayment,
    `UPDATE ledger.transactions SET state = 'succeeded'`,
    `UPDATE ledger.outbox SET payload = '{}'`,
    'UPDATE notifier.deliveries SET body = body',
    'DELETE FROM notifier.refused_messages',
    `UPDATE auditor.operator_acts SET why = 'x'`,
    'INSERT INTO console.operators DEFAULT VALUES',
    'SELECT FROM notifier.inbox',
    readKeys,
    readSecrets,
  ],
  triplock_console: [
    insertPayment,
    `UPDATE ledger.outbox SET state = 'ready'`,
    'UPDATE notifier.deliveries SET body = body',
    'INSERT INTO auditor.operator_acts DEFAULT VALUES',
    'SELECT sha256 FROM partners.api_keys',
    'SELECT * FROM claims.claims',
    readSecrets,
  ],
  triplock_settlement: [
    'SELECT FROM ledger.transactions',
    'DELETE FROM settlement.batches',
    'DELETE FROM settlement.inbox',
    'SELECT FROM notifier.deliveries',
    readKeys,
  ],
  triplock_auditor: [
    insertPayment,
    'DELETE FROM auditor.accepted',
    'UPDATE auditor.audit_slices SET hash = hash',
    'INSERT INTO auditor.operator_acts DEFAULT VALUES',
    `UPDATE notifier.deliveries SET state = 'delivered'`,
    'SELECT owner FROM claims.claims',
    readKeys,
    readSecrets,
  ],
};

const roles = Object.keys(forbidden) as DatabaseRole[];

test('each role is refused what is not its work, and nobody makes schemas or temporary tables', async (context) => {
  const store = await createTestDatabase(context);
  const known = Object.keys(databaseUrls(store.url())).map((name) => `triplock_${name}`);
  assert.deepEqual(known.sort(), roles.toSorted());
  const everywhere = [
    'CREATE TEMPORARY TABLE mine (id integer)',
    'CREATE SCHEMA mine',
    'CREATE TABLE public.mine (id integer)',
    'CREATE ROLE mine',
    'SET ROLE postgres',
    `SELECT pg_read_file('/etc/hosts')`,
    `COPY (SELECT 1) TO PROGRAM 'true'`,
  ];
  for (const role of roles) {
    const database = store.open(role);
    for (const statement of [...forbidden[role], ...everywhere]) {
      await assert.rejects(database.query(statement), denied, `${role}: ${statement}`);
    }
  }
});

test('the services’ roles connect to the system’s database and to no other, and nobody else to it', async (context) => {
  const server = await testPart('postgres');
  const name = testNamespace('rights').replaceAll('-', '_');
  context.after(() => withDatabase(server, (owner) => owner.query(`DROP DATABASE ${name}`)));
  const provision = () =>
    provisionDatabase({ url: server, origin: 'native', name }, () => undefined);
  const { roles: urls } = await provision();
  const connect = (url: string, database?: string) => {
    const at = new URL(url);
    if (database !== undefined) at.pathname = `/${database}`;
    return withDatabase(at.href, (opened) => opened.ping());
  };
  for (const url of Object.values(urls)) {
    await connect(url);
    for (const other of ['postgres', 'template1']) {
      await assert.rejects(connect(url, other), denied, `${new URL(url).username}: ${other}`);
    }
  }
  const stranger = `other_${name}`;
  await withDatabase(server, (owner) => owner.query(`CREATE ROLE ${stranger} LOGIN PASSWORD 'x'`));
  context.after(() => withDatabase(server, (owner) => owner.query(`DROP ROLE ${stranger}`)));
  const foreign = new URL(server);
  Object.assign(foreign, { username: stranger, password: 'x' });
  await assert.rejects(connect(foreign.href, name), denied);

  // As a dump that was restored is.
  await withDatabase(server, (owner) => owner.query(`GRANT ALL ON DATABASE ${name} TO PUBLIC`));
  await connect(foreign.href, name);
  await assert.rejects(withDatabase(urls.ledger, closeDatabase), OpenDatabaseError);
  await provision();
  await assert.rejects(connect(foreign.href, name), denied);
});

test('a role has the connections of two generations of its replicas, and not one more', async (context) => {
  const server = await testPart('postgres');
  const role = testNamespace('limited').replaceAll('-', '_');
  const owner = openForCommand({ url: server, applicationName: 'test', connectionsMax: 1 });
  const url = new URL(server);
  Object.assign(url, { username: role, password: 'x' });
  const pool = openForCommand({ url: url.href, applicationName: 'test', connectionsMax: 3 });
  context.after(async () => {
    await pool.close();
    await owner.query(`REVOKE ALL ON DATABASE postgres FROM ${role}`);
    await owner.query(`DROP ROLE ${role}`);
    await owner.close();
  });
  await owner.query(`CREATE ROLE ${role} LOGIN PASSWORD 'x'`);
  await owner.query(`GRANT CONNECT ON DATABASE postgres TO ${role}`);
  await limitConnections(owner, { [role]: 2 });
  const [first, second, release] = [0, 1, 2].map(() => Promise.withResolvers<void>());
  const busy = [first!, second!].map(({ resolve }) =>
    pool.transaction(() => {
      resolve();
      return release!.promise;
    }),
  );
  await Promise.all([first!.promise, second!.promise]);
  await assert.rejects(pool.ping(), { code: '53300' });
  release!.resolve();
  await Promise.all(busy);

  const replicas = 2;
  for (const { name, role: own, connections } of declarations) {
    if (own === undefined) continue;
    assert.ok(connections !== undefined, `services/${name}/service.ts: connections`);
    const limit = connectionLimits(replicas)[own as DatabaseRole];
    assert.ok(limit >= 2 * replicas * connections && limit < 60, `${own}: ${limit}`);
  }
});
