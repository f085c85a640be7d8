import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { text } from 'node:stream/consumers';
import { test, type TestContext } from 'node:test';
import {
  aPayment,
  createTestDatabase,
  createTestTopic,
  eventually,
  freePort,
  testNamespace,
} from '@triplock/testing';
import { createLogger } from '@triplock/runtime';
import { openGroupCommit } from '@triplock/transport';
import { closedWayTo } from './forwarder.testing.ts';
import { ledgerCounts, recordOf } from './worker.testing.ts';

/** The service as a process of its own, killed after the test if it still lives. */
function start(context: TestContext, env: Readonly<Record<string, string>>) {
  const main = fileURLToPath(new URL('main.ts', import.meta.url));
  const child = spawn(process.execPath, [main], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  context.after(() => void child.kill('SIGKILL'));
  const said = Promise.all([text(child.stdout), text(child.stderr)]);
  const ended = once(child, 'exit') as Promise<[number | null, string | null]>;
  const admin = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${env['ADMIN_PORT']}${path}`);
    return { status: response.status, body: await response.text() };
  };
  return { child, ended, said, admin };
}

/** Settings of a worker on topics and a database of one test's own. */
async function aPlace(context: TestContext) {
  const store = await createTestDatabase(context);
  const accepted = await createTestTopic(context);
  const letters = await createTestTopic(context);
  const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
  const log = openGroupCommit({ ...accepted, clientId: 'test', logger });
  context.after(() => log.close());
  const env = {
    TRIPLOCK_MODE: 'test',
    ADMIN_PORT: String(await freePort()),
    KAFKA_BROKERS: accepted.brokers[0]!,
    DATABASE_URL: store.url('triplock_ledger'),
    ACCEPTED_TOPIC: accepted.topic,
    DEAD_LETTER_TOPIC: letters.topic,
    LEDGER_GROUP: testNamespace('worker'),
  };
  const pay = () => log.append(recordOf(aPayment()));
  return { env, store, owner: store.open(), pay };
}

const within30s = (what: string) => ({ withinMs: 30_000, what });

test('a worker starts while PostgreSQL and Kafka are away, says so, and works once they are there', async (context) => {
  const { env, owner, pay } = await aPlace(context);
  const url = new URL(env.DATABASE_URL);
  const [host, port] = env.KAFKA_BROKERS.split(':');
  const toPostgres = await closedWayTo(context, { host: url.hostname, port: Number(url.port) });
  const toKafka = await closedWayTo(context, { host: host!, port: Number(port) });
  url.port = String(toPostgres.port);
  const { child, ended, admin } = start(context, {
    ...env,
    DATABASE_URL: url.href,
    KAFKA_BROKERS: `127.0.0.1:${toKafka.port}`,
  });
  await eventually(async () => (await admin('/healthz')).status === 200);
  const away = await admin('/readyz');
  assert.equal(away.status, 503);
  const { checks } = JSON.parse(away.body) as { checks: Record<string, string> };
  assert.deepEqual(Object.keys(checks).sort(), ['kafka', 'postgres']);
  assert.ok(Object.values(checks).every((word) => word !== 'ok'));

  await pay();
  await toKafka.open();
  await toPostgres.open();
  await eventually(async () => (await admin('/readyz')).status === 200, within30s('readiness'));
  await eventually(async () => (await ledgerCounts(owner)).events === 1, within30s('the payment'));
  assert.match((await admin('/metrics')).body, /triplock_worker_records_total\{outcome="posted"/);
  child.kill('SIGTERM');
  assert.deepEqual(await ended, [0, null]);
});

test('a worker killed between the ledger’s commit and the offset’s is taken over, and the payment is posted once', async (context) => {
  const { env, owner, pay } = await aPlace(context);
  const killed = start(context, { ...env, CRASH_POINTS: 'worker.committed=kill' });
  await pay();
  assert.deepEqual(await killed.ended, [null, 'SIGKILL']);
  assert.deepEqual(await ledgerCounts(owner), { rows: 1, entries: 1, events: 1 });
  const next = start(context, env);
  const known = /triplock_worker_records_total\{outcome="already-recorded",service="[a-z-]+"\} 1/;
  await eventually(
    async () => known.test((await next.admin('/metrics')).body),
    within30s('the redelivery'),
  );
  assert.deepEqual(await ledgerCounts(owner), { rows: 1, entries: 1, events: 1 });
  next.child.kill('SIGTERM');
  assert.deepEqual(await next.ended, [0, null]);
});

test('missing and malformed settings are all named at once', async (context) => {
  const { ended, said } = start(context, { KAFKA_BROKERS: 'nowhere', ADMIN_PORT: '70000' });
  assert.deepEqual(await ended, [2, null]);
  const [, errors] = await said;
  for (const name of ['ADMIN_PORT', 'KAFKA_BROKERS', 'DATABASE_URL']) {
    assert.match(errors, new RegExp(`${name} is (missing|malformed)`));
  }
});

test('a taken admin port ends the boot with a sentence that names it', async (context) => {
  const { env } = await aPlace(context);
  const holder = createServer().listen(0, '127.0.0.1');
  await once(holder, 'listening');
  context.after(() => void holder.close());
  const { port } = holder.address() as AddressInfo;
  const { ended, said } = start(context, { ...env, ADMIN_PORT: String(port) });
  assert.deepEqual(await ended, [1, null]);
  assert.match((await said)[0], new RegExp(`port ${port} .* is taken`));
});

test('a topic that may hold batches which nobody here can read ends the boot with what to do', async (context) => {
  const { env } = await aPlace(context);
  const { topic } = await createTestTopic(context, { compression: 'producer' });
  const { ended, said } = start(context, { ...env, ACCEPTED_TOPIC: topic });
  assert.deepEqual(await ended, [1, null]);
  assert.match((await said)[0], new RegExp(`topic ${topic} has compression.type producer`));
});
