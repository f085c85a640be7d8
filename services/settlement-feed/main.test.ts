import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { encodePaymentEvent, type PaymentEvent } from '@triplock/contracts';
import {
  aPayment,
  createTestDatabase,
  createTestSubscription,
  eventually,
  freePort,
  startService,
  succeeded,
  type TestService,
} from '@triplock/testing';

/** A settlement feed's process on stores of its own. */
async function aFeed(context: TestContext) {
  const store = await createTestDatabase(context);
  const pubsub = await createTestSubscription(context);
  const adminPort = String(await freePort());
  const begin = (more: Record<string, string> = {}): TestService =>
    startService(context, new URL('main.ts', import.meta.url), {
      TRIPLOCK_MODE: 'test',
      ADMIN_PORT: adminPort,
      DATABASE_URL: store.url('triplock_settlement'),
      PUBSUB_PROJECT_ID: pubsub.projectId,
      PUBSUB_EMULATOR_HOST: pubsub.emulatorHost,
      EVENTS_SUBSCRIPTION: pubsub.subscription,
      ...more,
    });
  const publish = (event: PaymentEvent) => {
    const { payload, attributes } = encodePaymentEvent(event);
    const message = { data: Buffer.from(payload), attributes: { ...attributes('') } };
    return pubsub.client.topic(pubsub.topic).publishMessage(message);
  };
  const owner = store.open();
  const batches = () => owner.query('SELECT gross, payments FROM partners.settlement_batches');
  return { begin, publish, batches, owner, url: store.url('triplock_settlement') };
}

test('a feed that is killed before it acknowledges adds each event once, however often it comes', async (context) => {
  const { begin, publish, batches } = await aFeed(context);
  const first = begin({ CRASH_POINTS: 'settlement.committed=kill' });
  await first.ready();
  const [event, other] = [succeeded(aPayment()), succeeded(aPayment())];
  for (let copy = 0; copy < 3; copy += 1) await publish(event);
  assert.equal((await first.ended).signal, 'SIGKILL');
  assert.deepEqual(await batches(), [{ gross: 1_250n, payments: 1n }]);
  const second = begin();
  await second.ready();
  await publish(other);
  const known = /triplock_settlement_events_total\{outcome="duplicate",.*\} [1-9]/;
  const redelivered = async () => known.test(await (await second.admin('/metrics')).text());
  await eventually(redelivered, { withinMs: 60_000, what: 'the redelivery' });
  await eventually(async () => {
    assert.deepEqual(await batches(), [{ gross: 2_500n, payments: 2n }]);
    return true;
  });
  assert.equal((await second.terminate()).exitCode, 0);
});

test('a feed whose inbox would forget before the outbox does says so and does not start', async (context) => {
  const { begin, owner } = await aFeed(context);
  await owner.query(`SELECT ledger.reap_outbox(interval '31 days', 1)`);
  const { exitCode, stdout } = await begin().ended;
  assert.equal(exitCode, 1);
  assert.match(stdout, /INBOX_RETENTION_HOURS is 720 and the dispatchers' .* for 744 hours/);
});

test('a feed whose commits do not wait for the disk adds and acknowledges nothing', async (context) => {
  const { begin, publish, batches, url } = await aFeed(context);
  const lossy = new URL(url);
  lossy.searchParams.set('options', '-c synchronous_commit=off');
  const feed = begin({ DATABASE_URL: lossy.href });
  await publish(succeeded(aPayment()));
  await eventually(async () => {
    const ready = await feed.admin('/readyz');
    return ready.status === 503 && /synchronous_commit/.test(await ready.text());
  });
  assert.deepEqual(await batches(), []);
  await feed.terminate();
  const lasting = begin();
  await lasting.ready();
  await eventually(async () => {
    assert.deepEqual(await batches(), [{ gross: 1_250n, payments: 1n }]);
    return true;
  });
});
