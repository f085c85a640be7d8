import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import {
  aPayment,
  aRefund,
  clocksOff,
  createTestDatabase,
  createTestStripe,
  createTestTopic,
  eventually,
  freePort,
  ofDeadLetters,
  patientAppends,
  testNamespace,
} from '@triplock/testing';
import { PostgresDurabilityError } from '@triplock/postgres';
import { providerNames } from '@triplock/providers';
import { createLogger, createMetrics, type Mode } from '@triplock/runtime';
import { openGroupCommit } from '@triplock/transport';
import { durabilityPass, requireDurableLedger, type StandbyPolicy } from './batch/durability.ts';
import { callLabels, workerMetrics } from './metrics.ts';
import { ledgerWorker } from './service.ts';
import {
  aCard,
  aPipeline,
  aTransfer,
  closedWayTo,
  ledgerCounts,
  recordOf,
  refundRecordOf,
  settingsOf,
} from './test/pipeline.ts';
import { chargers, type Charger } from './test/chargers.ts';
import { anew, pointsOfHolds, refundingAt, start, within2min } from './test/at-stripe.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

const textOf = async (answer: Promise<Response>) => (await answer).text();

/** Settings of a worker on topics and a database of one test's own. */
async function aSetup(context: TestContext) {
  const store = await createTestDatabase(context);
  const accepted = await createTestTopic(context);
  const dead = await createTestTopic(context, ofDeadLetters);
  const log = openGroupCommit({ ...accepted, clientId: 'test', logger, limits: patientAppends });
  context.after(() => log.close());
  const settings = settingsOf(store.url('triplock_ledger'), { accepted, dead });
  const env = { ...settings, ADMIN_PORT: String(await freePort()) };
  const pay = () => log.append(recordOf(aPayment()));
  return { env, store, owner: store.open(), pay };
}

test('a worker starts while PostgreSQL and Kafka are away, reports so, and works once they are there', async (context) => {
  const { env, owner, pay } = await aSetup(context);
  const url = new URL(env.DATABASE_URL);
  const [host, port] = env.KAFKA_BROKERS.split(':');
  const toPostgres = await closedWayTo(context, { host: url.hostname, port: Number(url.port) });
  const toKafka = await closedWayTo(context, { host: host!, port: Number(port) });
  url.port = String(toPostgres.port);
  const worker = start(context, {
    ...env,
    DATABASE_URL: url.href,
    KAFKA_BROKERS: `127.0.0.1:${toKafka.port}`,
  });
  await eventually(async () => (await worker.admin('/healthz')).ok);
  const away = await worker.admin('/readyz');
  assert.equal(away.status, 503);
  const { checks } = (await away.json()) as { checks: Record<string, string> };
  assert.deepEqual(Object.keys(checks).sort(), ['kafka', 'postgres']);
  assert.ok(Object.values(checks).every((status) => status !== 'ok'));

  await pay();
  await toKafka.open();
  await toPostgres.open();
  await worker.ready();
  await eventually(async () => (await ledgerCounts(owner)).events === 1, within2min('the payment'));
  assert.match(
    await textOf(worker.admin('/metrics')),
    /triplock_worker_records_total\{outcome="posted",[^}]*\} [1-9]/,
  );
  assert.equal((await worker.terminate()).exitCode, 0);
});

test('a worker killed between the ledger’s commit and the offset’s is taken over, and the payment is posted once', async (context) => {
  const { env, owner, pay } = await aSetup(context);
  const killed = start(context, { ...env, CRASH_POINTS: 'worker.committed=kill' });
  await pay();
  assert.equal((await killed.ended).signal, 'SIGKILL');
  assert.deepEqual(await ledgerCounts(owner), { rows: 1, entries: 1, events: 1 });
  const next = start(context, env);
  const known = /triplock_worker_records_total\{outcome="already-recorded",service="[a-z-]+"\} 1/;
  await eventually(
    async () => known.test(await textOf(next.admin('/metrics'))),
    within2min('the redelivery'),
  );
  assert.deepEqual(await ledgerCounts(owner), { rows: 1, entries: 1, events: 1 });
  assert.equal((await next.terminate()).exitCode, 0);
});

// In the order in which it comes to them; the payment and its refund are settled alike.
const pointsWith = (steps: Charger['steps']): Charger['steps'] => [
  'worker.polled',
  ...steps,
  'worker.settled',
  'worker.reserved',
  'worker.refunded',
  'worker.settled',
  'worker.dead-lettered',
  'worker.committed',
  'worker.offset-committed',
];

/** What Stripe reports: provider-reports.test.ts fails there, and the scenario `disputed` kills. */
const pointsOfReports = ['worker.disputed'];

/** Where a card comes to that is refused. */
const pointOfRefusals = 'worker.given-up';

test('a worker that is killed between cancelling a refused card and settling it leaves the bank’s reason', async (context) => {
  const stripe = await createTestStripe(context);
  const { aRefunding } = refundingAt(() => stripe);
  const { worker, work, pay, settings } = await aRefunding(context);
  await worker.consumer.close();
  const card = aPayment({ paymentMethod: 'pm_card_chargeDeclinedInsufficientFunds' });
  await pay(card);
  const crash = { CRASH_POINTS: `${pointOfRefusals}=kill` };
  const killed = start(context, { ...(await anew(settings, stripe)), ...crash });
  assert.equal((await killed.ended).signal, 'SIGKILL');
  assert.equal((await worker.ledger.find(card.txnId))?.state, 'pending');
  await work().allCommitted();
  const ended = await worker.ledger.find(card.txnId);
  assert.deepEqual([ended?.state, ended?.failure?.code], ['failed', 'insufficient_funds']);
});

test('every crash point of a worker is tried', () => {
  const steps = ['worker.intent-created', 'worker.intent-stored', 'worker.charged'] as const;
  const points = pointsWith(steps);
  const tried = new Set([...points, ...pointsOfHolds, ...pointsOfReports, pointOfRefusals]);
  assert.deepEqual(tried, new Set(ledgerWorker.crashPoints));
});

for (const name of providerNames) {
  test(`a worker that is killed at every point of their way charges a payment at ${name} and gives back of it once`, async (context) => {
    const charger = await chargers[name](context);
    const { append, settings, owner, deadLetters } = await aPipeline(context);
    const payment = aPayment({ amount: 1_000n, ...charger.paid });
    await append(recordOf(payment));
    await append(refundRecordOf(aRefund(payment, { amount: 400n })));
    await append({ key: 'k', value: Buffer.from('poison'), headers: {} });

    // Of a group of its own each, so that nobody waits for the session of a dead member to end.
    const begin = async (point: string) =>
      start(context, {
        ...settings,
        ...charger.settings,
        LEDGER_GROUP: testNamespace('worker'),
        ADMIN_PORT: String(await freePort()),
        CRASH_POINTS: `${point}=kill`,
      });
    for (const point of pointsWith(charger.steps)) {
      const killed = await begin(point);
      assert.equal((await killed.ended).signal, 'SIGKILL', point);
      if (point === 'worker.polled') {
        assert.deepEqual(await ledgerCounts(owner), { rows: 0, entries: 0, events: 0 });
      }
      // Whoever comes next learns from the provider how it ended.
      if (point === 'worker.charged') await charger.settle();
      // The provider has forgotten the key by then: its refunds themselves are what is left.
      if (point === 'worker.refunded') await charger.forgetKeys();
    }
    const rows = await owner.query(`
      SELECT kind, state, provider, amount_refunded::int AS refunded, refund_reserved::int AS reserved
      FROM ledger.transactions ORDER BY kind`);
    assert.deepEqual(rows, [
      { kind: 'payment', state: 'succeeded', provider: name, refunded: 400, reserved: 400 },
      { kind: 'refund', state: 'succeeded', provider: name, refunded: 0, reserved: 0 },
    ]);
    assert.deepEqual(await charger.moved(), { charged: 1_000, givenBack: 400 });
    assert.deepEqual(await ledgerCounts(owner), { rows: 2, entries: 2, events: 2 });
    assert.ok(deadLetters.length >= 2, `${deadLetters.length} letters`);
  });
}

for (const { hours, settings: clock } of clocksOff) {
  test(`a worker whose clock is off by ${hours} h goes on with what another left, and settles everything once`, async (context) => {
    const stripe = await createTestStripe(context);
    const { aRefunding, providerGaveBack } = refundingAt(() => stripe);
    const { worker, work, pay, refund, settings, owner } = await aRefunding(context);
    await worker.consumer.close();
    const [card, transfer] = [aCard(), aTransfer()];
    await pay(card, transfer);
    await refund(aRefund(card, { amount: 400n }), aRefund(transfer));
    const begin = async (more: object) =>
      start(context, { ...(await anew(settings, stripe)), ...more });
    const killed = await begin({ CRASH_POINTS: 'worker.charged=kill' });
    assert.equal((await killed.ended).signal, 'SIGKILL');
    const off = await begin(clock);
    const all = { rows: 4, entries: 4, events: 4 };
    await eventually(async () => (await ledgerCounts(owner)).events === 4, within2min('the end'));
    await work().allCommitted();
    assert.deepEqual(await ledgerCounts(owner), all);
    const states = await owner.query('SELECT DISTINCT state FROM ledger.transactions');
    assert.deepEqual(states, [{ state: 'succeeded' }]);
    assert.deepEqual(await providerGaveBack(), { count: 1, amount: 400 });
    const { charges } = await stripe.control<{ charges: object }>('GET', '/audit');
    assert.deepEqual(charges, { eur: { count: 1, amount: 1_000 } });
    assert.equal((await off.terminate()).exitCode, 0);
  });
}

test('a worker whose commits do not wait for the disk does not start, and one that runs posts nothing until they do', async (context) => {
  const { env, store, owner, pay } = await aSetup(context);
  const role = `ALTER ROLE triplock_ledger IN DATABASE "${new URL(store.url()).pathname.slice(1)}"`;
  const worker = start(context, env);
  await worker.ready();
  await owner.query(`${role} SET synchronous_commit = off`);
  await owner.query(`
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE usename = 'triplock_ledger' AND datname = current_database()`);
  await pay();
  const failed = /triplock_worker_batch_seconds_count\{[^}]*"failed"[^}]*\} [1-9]/;
  await eventually(
    async () => failed.test(await textOf(worker.admin('/metrics'))),
    within2min('a failure'),
  );
  const ready = await worker.admin('/readyz');
  assert.deepEqual([ready.status, (await ledgerCounts(owner)).rows], [503, 0]);
  assert.match(await ready.text(), /synchronous_commit/);
  const { ended } = start(context, { ...env, ADMIN_PORT: `${await freePort()}` });
  const { exitCode, stdout } = await ended;
  assert.equal(exitCode, 1);
  assert.match(stdout, /synchronous_commit = off for the role triplock_ledger/);
  await owner.query(`${role} RESET synchronous_commit`);
  await eventually(async () => (await ledgerCounts(owner)).events === 1, within2min('the payment'));
});

test('missing and malformed settings are all named at once', async (context) => {
  const settings = { KAFKA_BROKERS: 'nowhere', ADMIN_PORT: '70000', WEBHOOKS_PORT: '1024' };
  const { exitCode, stderr } = await start(context, settings).ended;
  assert.equal(exitCode, 2);
  const names = ['ADMIN_PORT', 'KAFKA_BROKERS', 'DATABASE_URL', 'STRIPE_WEBHOOK_SECRETS'];
  for (const name of names) {
    assert.match(stderr, new RegExp(`${name} is (missing|malformed)`));
  }
});

test('a taken admin port ends the boot with a sentence that names it', async (context) => {
  const { env } = await aSetup(context);
  const holder = createServer().listen(0, '127.0.0.1');
  await once(holder, 'listening');
  context.after(() => void holder.close());
  const { port } = holder.address() as AddressInfo;
  const { exitCode, stdout } = await start(context, { ...env, ADMIN_PORT: String(port) }).ended;
  assert.equal(exitCode, 1);
  assert.match(stdout, new RegExp(`port ${port} .* is taken`));
});

test('a topic that cannot be read, or cannot take a burst of dead letters, ends the boot with what to do', async (context) => {
  const { env } = await aSetup(context);
  const [packed, small] = await Promise.all([
    createTestTopic(context, { compression: 'producer' }),
    createTestTopic(context),
  ]);
  const [unreadable, tooSmall] = await Promise.all([
    start(context, { ...env, ACCEPTED_TOPIC: packed.topic }).ended,
    start(context, { ...env, DEAD_LETTER_TOPIC: small.topic, ADMIN_PORT: `${await freePort()}` })
      .ended,
  ]);
  assert.deepEqual([unreadable.exitCode, tooSmall.exitCode], [1, 1]);
  assert.match(
    unreadable.stdout,
    new RegExp(`topic ${packed.topic} has compression.type producer`),
  );
  assert.match(tooSmall.stdout, new RegExp(`topic ${small.topic} has max.message.bytes 1048588`));
});

test('each call of the provider is there from the start, by what may be known of it', async () => {
  const { calls } = workerMetrics(createMetrics('test'));
  const { values } = await calls.get();
  const counts = values.filter(({ metricName }) => metricName?.endsWith('_count'));
  // Answered, turned away, or not known.
  assert.equal(counts.length, providerNames.length * Object.keys(callLabels).length * 3);
  assert.ok(counts.every(({ value }) => value === 0));
});

/** A watch on a ledger with so many standbys that no commit waits for. */
function aWatch(standbys: () => number | Error) {
  const metrics = workerMetrics(createMetrics('test'));
  const readDurability = async () => {
    const now = standbys();
    if (now instanceof Error) throw now;
    return { asynchronousStandbys: now };
  };
  const boot = (mode: Mode, policy: StandbyPolicy) =>
    requireDurableLedger({ readDurability, metrics, logger }, { mode, standbys: policy });
  const alarm = async () => (await metrics.asynchronousStandbys.get()).values[0]?.value;
  return { boot, look: durabilityPass({ readDurability, metrics, logger }), alarm };
}

test('production does not start on a ledger whose failover may lose payments, unless a setting accepts it', async () => {
  const { boot } = aWatch(() => 1);
  await assert.rejects(
    boot('production', 'refused'),
    /synchronous_standby_names, or ASYNCHRONOUS_STANDBYS=accepted/,
  );
  await boot('production', 'accepted');
  await boot('demo', 'refused');
  await aWatch(() => 0).boot('production', 'refused');
});

test('a ledger that is away does not end the boot, one that loses commits does in every mode', async () => {
  await aWatch(() => new Error('away')).boot('production', 'refused');
  const { boot } = aWatch(() => new PostgresDurabilityError('fsync', 'triplock_ledger'));
  await assert.rejects(boot('test', 'accepted'), PostgresDurabilityError);
});

test('a standby that is attached later, or leaves, is counted and stops nothing', async () => {
  let standbys = 0;
  const { look, alarm } = aWatch(() => standbys);
  for (standbys of [0, 2, 2, 0]) {
    assert.equal(await look(), 0);
    assert.equal(await alarm(), standbys);
  }
});
