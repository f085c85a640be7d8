import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { encodePaymentEvent, type PaymentEvent } from '@triplock/contracts';
import { openWebhookEndpoints, parseWebhookKeys, seedPartner } from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import {
  aPayment,
  clocksOff,
  createTestDatabase,
  createTestSubscription,
  eventually,
  freePort,
  loseListener,
  startService,
  succeeded,
  type TestService,
  testWebhookKeys,
} from '@triplock/testing';
import { Webhook } from 'standardwebhooks';
import { partnerNotifier } from './service.ts';
import { aReceiver, type Received } from './test/webhooks.ts';

const secret = 'whsec_c2VjcmV0LW9uZS1vZi1hY21lLTI0Ynl0ZXM=';

/** A notifier process on stores of its own, and a partner that waits for webhooks. */
async function aNotifier(context: TestContext, settings: Record<string, string> = {}) {
  const store = await createTestDatabase(context);
  const pubsub = await createTestSubscription(context);
  const receiver = await aReceiver(context);
  const adminPort = await freePort();
  await seedPartner(
    store.open(),
    {
      id: 'acme' as PartnerId,
      apiKey: 'key-of-acme',
      webhookUrl: receiver.url,
      webhookSecret: secret,
    },
    parseWebhookKeys(testWebhookKeys),
  );
  const begin = (more: Record<string, string> = {}): TestService =>
    startService(context, new URL('main.ts', import.meta.url), {
      TRIPLOCK_MODE: 'test',
      ADMIN_PORT: String(adminPort),
      DATABASE_URL: store.url('triplock_notifier'),
      PUBSUB_PROJECT_ID: pubsub.projectId,
      PUBSUB_EMULATOR_HOST: pubsub.emulatorHost,
      EVENTS_SUBSCRIPTION: pubsub.subscription,
      ...settings,
      ...more,
    });
  const start = async (more?: Record<string, string>): Promise<TestService> => {
    const notifier = begin(more);
    await notifier.ready();
    return notifier;
  };
  const publish = (event: PaymentEvent) => {
    const { payload, attributes } = encodePaymentEvent(event);
    const message = { data: Buffer.from(payload), attributes: { ...attributes('') } };
    return pubsub.client.topic(pubsub.topic).publishMessage(message);
  };
  return { begin, start, publish, receiver, store };
}

test('an event that is published three times is one verified webhook', async (context) => {
  const { start, publish, receiver } = await aNotifier(context);
  const notifier = await start();
  const event = succeeded(aPayment());
  for (let copy = 0; copy < 3; copy += 1) await publish(event);
  await publish(succeeded(aPayment()));
  await eventually(async () => receiver.received.length === 2);
  const [webhook] = receiver.received.filter(
    ({ headers }) => headers['webhook-id'] === event.event_id,
  );
  const { type, timestamp, sequence, data } = event;
  const headers = webhook!.headers as Record<string, string>;
  const verified = new Webhook(secret).verify(webhook!.body, headers);
  assert.deepEqual(verified, { type, timestamp, sequence, data });
  // The receiver has its webhook before the sender has recorded the answer.
  await eventually(async () => {
    const metrics = await (await notifier.admin('/metrics')).text();
    return /triplock_webhook_attempts_total\{outcome="delivered",.*\} 2/.test(metrics);
  });

  assert.equal((await notifier.terminate()).exitCode, 0);
});

test('an endpoint that is set gets webhooks once it has echoed, and the one before it no more', async (context) => {
  const { start, publish, receiver: before, store } = await aNotifier(context);
  const notifier = await start();
  const receiver = await aReceiver(context);
  receiver.answerWith((response, { body }) => {
    const { data } = JSON.parse(body) as { data: { token?: string } };
    response.end(data.token ?? '');
  });
  const keys = parseWebhookKeys(testWebhookKeys);
  const endpoints = openWebhookEndpoints(store.open('triplock_gateway'), keys);
  await endpoints.setUrl({ partnerId: 'acme' as PartnerId, url: receiver.url });
  await publish(succeeded(aPayment()));
  await eventually(async () => receiver.received.length === 2);
  const types = receiver.received.map(({ body }) => (JSON.parse(body) as { type: string }).type);
  assert.deepEqual(types, ['endpoint.verification', 'payment.succeeded']);
  assert.deepEqual(before.received, []);
  const metrics = await (await notifier.admin('/metrics')).text();
  assert.match(metrics, /triplock_webhook_verifications_total\{outcome="echoed",.*\} 1/);
  assert.match(metrics, /triplock_webhook_rates_spent\{of="host",.*\} 0/);
  assert.equal((await notifier.terminate()).exitCode, 0);
});

test('a notifier whose listening connection is lost listens again, and finds what it is not told of', async (context) => {
  const { start, publish, receiver, store } = await aNotifier(context);
  const database = store.open();
  await database.query('UPDATE partners.webhook_endpoints SET disabled_at = now()');
  const notifier = await start({ INSTANCE_NAME: 'listener' });
  await publish(succeeded(aPayment()));
  const isParked = `SELECT FROM webhooks.deliveries WHERE state = 'parked'`;
  await eventually(async () => (await database.query(isParked)).length === 1);
  await loseListener(database, 'listener');
  // As an operator would: no gateway tells of it.
  await database.query('UPDATE partners.webhook_endpoints SET disabled_at = NULL');
  await eventually(async () => receiver.received.length === 1);
  assert.equal((await notifier.terminate()).exitCode, 0);
});

test('a notifier that is killed at every point that it has sends each webhook, and again only under its id', async (context) => {
  // An attempt that times out before the receiver has it reaches the point after its answer too.
  const { begin, publish, receiver, store } = await aNotifier(context, {
    WEBHOOK_TIMEOUT_MS: '10000',
  });
  const events = new Map<string, string>();
  for (const point of partnerNotifier.crashPoints) {
    const event = succeeded(aPayment());
    events.set(event.event_id, event.txn_id);
    const killed = begin({ CRASH_POINTS: `${point}=kill` });
    await publish(event);
    assert.equal((await killed.ended).signal, 'SIGKILL', point);
  }
  const last = begin();
  const database = store.open();
  const deliveredSql = `SELECT FROM webhooks.deliveries WHERE state = 'delivered'`;
  await eventually(async () => (await database.query(deliveredSql)).length === events.size, {
    withinMs: 180_000,
    what: 'each webhook after the crashes',
  });
  const bodies = Map.groupBy(receiver.received, ({ headers }) => String(headers['webhook-id']));
  assert.deepEqual(new Set(bodies.keys()), new Set(events.keys()));
  for (const [id, sent] of bodies) {
    assert.equal(new Set(sent.map(({ body }) => body)).size, 1);
    assert.ok(sent[0]!.body.includes(events.get(id)!));
  }
  // What the partner had answered when the notifier died came once more.
  assert.ok(receiver.received.length > events.size);
  assert.equal((await last.terminate()).exitCode, 0);
});

for (const { hours, settings: clock } of clocksOff) {
  test(`a notifier whose clock is off by ${hours} h sends an event once, tries it again when that is due, and signs at its own time`, async (context) => {
    const { start, publish, receiver } = await aNotifier(context, { WEBHOOK_RETRY_FIRST_MS: '10' });
    const notifier = await start(clock);
    receiver.answerWith((response) => {
      response.writeHead(receiver.received.length === 1 ? 500 : 204).end();
    });
    const event = succeeded(aPayment());
    for (let copy = 0; copy < 3; copy += 1) await publish(event);
    await eventually(async () => {
      const metrics = await (await notifier.admin('/metrics')).text();
      return /triplock_webhook_attempts_total\{outcome="delivered",.*\} 1/.test(metrics);
    });
    assert.equal((await notifier.terminate()).exitCode, 0);
    const [refused, taken, ...more] = receiver.received as [Received, Received];
    assert.deepEqual(more, []);
    for (const { headers, body } of [refused, taken]) {
      assert.equal(headers['webhook-id'], event.event_id);
      const signedAt = Number(headers['webhook-timestamp']) / 3_600 - Date.now() / 3_600_000;
      assert.ok(Math.abs(signedAt - hours) < 0.5, `signed ${signedAt} h from now`);
      // A partner that looks at the time refuses it, and it comes again.
      const verify = () => new Webhook(secret).verify(body, headers as Record<string, string>);
      assert.throws(verify, /timestamp too (old|new)/);
    }
  });
}

test('a notifier whose inbox would forget before the outbox does says so and does not start', async (context) => {
  const { begin, store } = await aNotifier(context);
  await store.open().query(`SELECT ledger.reap_outbox(interval '31 days', 1)`);
  const { exitCode, stdout } = await begin().ended;
  assert.equal(exitCode, 1);
  assert.match(stdout, /INBOX_RETENTION_HOURS is 720 and the dispatchers' .* for 744 hours/);
});

test('a notifier whose commits do not wait for the disk acknowledges nothing, and the webhook comes later', async (context) => {
  const { begin, start, publish, receiver, store } = await aNotifier(context);
  const lossy = new URL(store.url('triplock_notifier'));
  lossy.searchParams.set('options', '-c synchronous_commit=off');
  const notifier = begin({ DATABASE_URL: lossy.href });
  await publish(succeeded(aPayment()));
  await eventually(async () => {
    const ready = await notifier.admin('/readyz');
    return ready.status === 503 && /synchronous_commit/.test(await ready.text());
  });
  assert.deepEqual(await store.open().query('SELECT FROM notifier.inbox'), []);
  await notifier.terminate();
  await start();
  await eventually(async () => receiver.received.length === 1);
});
