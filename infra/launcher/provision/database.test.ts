import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import {
  closeDatabase,
  connectionLimits,
  type DatabaseRole,
  limitConnections,
  migrate,
  migrationSets,
  openDatabase,
  OpenDatabaseError,
  openForCommand,
} from '@triplock/postgres';
import { createTestDatabase, testNamespace, testPart } from '@triplock/testing';
import { auditOf } from '@triplock/testing/test';
import { consumers } from '@triplock/pipeline';
import { CommandError } from '@triplock/command';
import { ledgersApart } from '@triplock/ledgers';
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
  assert.ok(error instanceof CommandError);
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
  for (const ledger of ledgersApart) {
    assert.equal(ledgerOf({}, ledger), ledger);
    assert.equal(ledgerOf({ ledger }, undefined), ledger);
    assert.throws(() => ledgerOf({ ledger }, 'postgres'), CommandError);
    const moved = new RegExp(`does not move to ${ledger}`);
    assert.throws(() => ledgerOf({ ledger: 'postgres' }, ledger), moved);
  }
});

const denied = { code: '42501' };
const insertPayment = 'INSERT INTO ledger.transactions (txn_id) VALUES (gen_random_uuid())';
const readSecrets = 'SELECT secrets FROM partners.webhook_endpoints';
const readKeys = 'SELECT FROM partners.api_keys';

type RoleOfConsumer = `triplock_${(typeof consumers)[number]['schema']}`;
const ofConsumers = await Promise.all(
  consumers.map(async ({ name, schema }) => {
    return [`triplock_${schema}` as const, (await auditOf(name)).denied] as const;
  }),
);

/** What each role is refused: nothing of these is its work, and some is that of its neighbour. */
const ofOthers: Readonly<Record<Exclude<DatabaseRole, RoleOfConsumer>, readonly string[]>> = {
  triplock_ledger: [
    `UPDATE ledger.outbox SET state = 'published'`,
    'UPDATE ledger.outbox_leases SET epoch = epoch + 1',
    `SELECT ledger.reap_outbox(interval '30 days', 1)`,
    'INSERT INTO ledger.copied (until_micros) VALUES (1)',
    'DELETE FROM ledger.transactions',
    'SELECT FROM webhooks.deliveries',
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
    'SELECT FROM webhooks.deliveries',
    'INSERT INTO partners.settlement_batches DEFAULT VALUES',
    'INSERT INTO partners.api_keys DEFAULT VALUES',
    `SELECT partners.lock_webhook_endpoints('acme')`,
    readSecrets,
  ],
  triplock_claims: ['SELECT FROM ledger.transactions', 'DELETE FROM claims.claims', readKeys],
  triplock_partners: ['SELECT FROM ledger.transactions', 'SELECT FROM claims.claims'],
  triplock_operator: [
    insertPayment,
    `UPDATE ledger.transactions SET state = 'succeeded'`,
    `UPDATE ledger.outbox SET payload = '{}'`,
    'UPDATE webhooks.deliveries SET body = body',
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
    'UPDATE webhooks.deliveries SET body = body',
    'INSERT INTO auditor.operator_acts DEFAULT VALUES',
    'SELECT sha256 FROM partners.api_keys',
    'SELECT * FROM claims.claims',
    'SELECT FROM console.operators',
    'SELECT FROM console.sessions',
    'INSERT INTO console.sessions DEFAULT VALUES',
    readSecrets,
  ],
  triplock_auditor: [
    insertPayment,
    'DELETE FROM auditor.accepted',
    'UPDATE auditor.audit_slices SET hash = hash',
    'INSERT INTO auditor.operator_acts DEFAULT VALUES',
    `UPDATE webhooks.deliveries SET state = 'delivered'`,
    'SELECT owner FROM claims.claims',
    `SELECT auditor.lock_subject('lost:1')`,
    `SELECT FROM console.whose_token('x')`,
    readKeys,
    readSecrets,
  ],
};

/** What PostgreSQL lets every role do unless it is told otherwise, and what none of ours needs. */
const everywhere = [
  'CREATE TEMPORARY TABLE mine (id integer)',
  'CREATE SCHEMA mine',
  'CREATE TABLE public.mine (id integer)',
  'CREATE ROLE mine',
  'SET ROLE postgres',
  `SELECT pg_read_file('/etc/hosts')`,
  `COPY (SELECT 1) TO PROGRAM 'true'`,
  // The notifiers' lock, by its number: no webhook would be sent while it is held.
  `SELECT pg_advisory_lock(hashtextextended('lease_deliveries', 0))`,
  `SELECT pg_try_advisory_xact_lock_shared(1, 2)`,
  'SELECT lo_create(0)',
  `SELECT lo_from_bytea(0, 'as many bytes as the disk has')`,
  'SELECT lo_open(1, 131072)',
  `SELECT pg_logical_emit_message(false, 'mine', 'as many bytes as the disk has')`,
  'ALTER DATABASE postgres SET statement_timeout = 0',
];

/** Rights that a role could give itself, or take from its neighbour. */
const ofRoles = (own: DatabaseRole, other: DatabaseRole) => [
  `ALTER ROLE ${own} CONNECTION LIMIT -1`,
  `ALTER ROLE ${own} BYPASSRLS`,
  `ALTER ROLE ${other} PASSWORD 'mine'`,
  `ALTER ROLE ${other} SET statement_timeout = 0`,
  `SET ROLE ${other}`,
];

const forbidden = new Map<DatabaseRole, readonly string[]>([
  ...(Object.entries(ofOthers) as [DatabaseRole, readonly string[]][]),
  ...ofConsumers,
]);
const roles = [...forbidden.keys()];

test('each role is refused what is not its work, and nobody makes schemas, temporary tables, locks by number or large objects', async (context) => {
  const store = await createTestDatabase(context);
  const known = Object.keys(databaseUrls(store.url())).map((name) => `triplock_${name}`);
  assert.deepEqual(known.sort(), roles.toSorted());
  for (const role of roles) {
    const database = store.open(role);
    const other = roles[(roles.indexOf(role) + 1) % roles.length]!;
    for (const statement of [...forbidden.get(role)!, ...everywhere, ...ofRoles(role, other)]) {
      await assert.rejects(database.query(statement), denied, `${role}: ${statement}`);
    }
  }
});

test('a role that took its own limits away has them in every session of ours', async (context) => {
  const server = await testPart('postgres');
  const role = testNamespace('unlimited').replaceAll('-', '_');
  const owner = openForCommand({ url: server, applicationName: 'test', connectionsMax: 1 });
  context.after(async () => {
    await owner.query(`DROP OWNED BY ${role}`);
    await owner.query(`DROP ROLE ${role}`);
    await owner.close();
  });
  await owner.query(`CREATE ROLE ${role} LOGIN PASSWORD 'x'`);
  await owner.query(`GRANT CONNECT ON DATABASE postgres TO ${role}`);
  const url = new URL(server);
  Object.assign(url, { username: role, password: 'x' });
  const limits = `SELECT current_setting('statement_timeout') AS statement,
    current_setting('idle_in_transaction_session_timeout') AS idle,
    current_setting('default_transaction_read_only') AS "readOnly"`;
  const inForce = async () => {
    const onIdleError = () => undefined;
    const options = { applicationName: 'test', readOnly: true, onIdleError };
    const database = openDatabase({ url: url.href, ...options });
    return database.query(limits).finally(() => database.close());
  };
  const before = await inForce();
  assert.deepEqual(before, [{ statement: '10s', idle: '10s', readOnly: 'on' }]);
  // PostgreSQL lets every role do this to itself (manual, ALTER ROLE).
  await withDatabase(url.href, async (stolen) => {
    for (const name of ['statement_timeout', 'idle_in_transaction_session_timeout']) {
      await stolen.query(`ALTER ROLE CURRENT_USER SET ${name} = 0`);
    }
    await stolen.query('ALTER ROLE CURRENT_USER SET default_transaction_read_only = off');
  });
  assert.deepEqual(await inForce(), before);
});

test('an owner that makes roles and is no superuser brings a database up to date', async (context) => {
  const server = await testPart('postgres');
  const name = testNamespace('owned').replaceAll('-', '_');
  await createTestDatabase(context); // By whose migrations there are roles, which the server keeps.
  const asSuperuser = <Row extends object>(statement: string) =>
    withDatabase(server, (database) => database.query<Row>(statement));
  await asSuperuser(`CREATE ROLE ${name} LOGIN CREATEROLE PASSWORD 'x'`);
  context.after(async () => {
    await asSuperuser(`DROP DATABASE IF EXISTS ${name}`);
    for (const role of made) await asSuperuser(`REVOKE ${role} FROM ${name} CASCADE`);
    await asSuperuser(`DROP ROLE ${name}`);
  });
  const rows = await asSuperuser<{ role: string }>(
    `SELECT rolname AS role FROM pg_roles WHERE rolname LIKE 'triplock\\_%'`,
  );
  const made = rows.map(({ role }) => role);
  // What the owner has of the roles that it makes itself.
  const [{ version }] = (await asSuperuser(
    `SELECT current_setting('server_version_num')::integer AS version`,
  )) as [{ version: number }];
  const option = version < 160_000 ? 'ADMIN OPTION' : 'ADMIN TRUE, INHERIT FALSE, SET FALSE';
  for (const role of made) await asSuperuser(`GRANT ${role} TO ${name} WITH ${option}`);
  await asSuperuser(`CREATE DATABASE ${name} OWNER ${name}`);
  const url = new URL(server);
  Object.assign(url, { username: name, password: 'x', pathname: `/${name}` });
  await migrate(url.href, migrationSets);
  await withDatabase(url.href, async (owner) => {
    await closeDatabase(owner, { copied: false });
    const [token] = await owner.query<{ owner: string }>(
      `SELECT proowner::regrole::text AS owner FROM pg_proc WHERE proname = 'whose_token'`,
    );
    assert.equal(token!.owner, 'triplock_sessions');
  });
});

test('the services’ roles connect to the system’s database and to no other, and nobody else to it', async (context) => {
  const server = await testPart('postgres');
  const name = testNamespace('rights').replaceAll('-', '_');
  context.after(() => withDatabase(server, (owner) => owner.query(`DROP DATABASE ${name}`)));
  const provision = (copied = false) =>
    provisionDatabase({ url: server, origin: 'native', name, copied }, () => undefined);
  const { roles: urls } = await provision();
  const connect = (url: string, database?: string) => {
    const at = new URL(url);
    if (database !== undefined) at.pathname = `/${database}`;
    return withDatabase(at.href, (opened) => opened.ping());
  };
  // Who writes the copy of a ledger comes to a database that has one alone.
  await assert.rejects(connect(urls.copy), { code: /^(42501|28000)$/ });
  await provision(true);
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
  await assert.rejects(
    withDatabase(urls.ledger, (opened) => closeDatabase(opened, { copied: false })),
    OpenDatabaseError,
  );
  await provision();
  await assert.rejects(connect(foreign.href, name), denied);
  await assert.rejects(connect(urls.copy), denied);
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
