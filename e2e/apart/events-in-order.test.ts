import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { Message } from '@google-cloud/pubsub';
import {
  aPayment,
  createTestDatabase,
  createTestRelay,
  createTestSubscription,
  createTestTopic,
  eventually,
  freePort,
  openEmulator,
  seedEvents,
  startService,
  type TestSubscription,
} from '@triplock/testing';

/**
 * Dispatchers and a notifier as processes, on a database and a topic of one test's own, so that
 * events can be put into the outbox that nothing produces in such numbers.
 */
async function aPlace(t: TestContext) {
  const store = await createTestDatabase(t);
  const events = await createTestSubscription(t);
  const told = await createTestTopic(t);
  const toBroker = await createTestRelay(t, `http://${events.emulatorHost}`);
  const seen = await watchOrder(t, events);
  const start = async (service: string, settings: Readonly<Record<string, string>>) =>
    startService(t, new URL(`../../services/${service}/main.ts`, import.meta.url), {
      TRIPLOCK_MODE: 'test',
      ADMIN_PORT: String(await freePort()),
      PUBSUB_PROJECT_ID: events.projectId,
      PUBSUB_EMULATOR_HOST: events.emulatorHost,
      ...settings,
    });
  return {
    owner: store.open(),
    ledger: store.open('triplock_ledger'),
    seen,
    toBroker,
    dispatcher: (settings: Readonly<Record<string, string>>) =>
      start('outbox-dispatcher', {
        DATABASE_URL: store.url('triplock_dispatcher'),
        EVENTS_TOPIC: events.topic,
        KAFKA_BROKERS: told.brokers.join(','),
        TOLD_TOPIC: told.topic,
        ...settings,
      }),
    notifier: () =>
      start('partner-notifier', {
        DATABASE_URL: store.url('triplock_notifier'),
        EVENTS_SUBSCRIPTION: events.subscription,
      }),
  };
}

/**
 * The sequences of each payment in the order in which they are first delivered to somebody else.
 */
async function watchOrder(t: TestContext, events: TestSubscription) {
  const seen = new Map<string, Set<number>>();
  const client = await openEmulator(events);
  const topic = client.topic(events.topic);
  const options = { enableMessageOrdering: true, ackDeadlineSeconds: 30 };
  const [subscription] = await topic.createSubscription(`${events.topic}-watch`, options);
  subscription.on('message', (message: Message) => {
    const { payment_id: payment, sequence } = message.attributes;
    const sequences = seen.get(payment!) ?? new Set();
    seen.set(payment!, sequences.add(Number(sequence)));
    message.ack();
  });
  subscription.on('error', () => undefined); // It is deleted before this reader closes.
  t.after(async () => {
    await subscription.close();
    await subscription.delete();
    await client.close();
  });
  return seen;
}

const range = (count: number) => Array.from({ length: count }, (_, n) => n + 1);
const within60s = (what: string) => ({ withinMs: 60_000, what });

test('events of a payment are applied 1 to n, whatever becomes of dispatchers, broker and commits', async (t) => {
  const { owner, ledger, seen, toBroker, dispatcher, notifier } = await aPlace(t);
  const waiting = async () => {
    const sql = `SELECT count(*)::int AS n FROM ledger.outbox WHERE state = 'pending'`;
    return (await owner.query<{ n: number }>(sql))[0]!.n;
  };
  await notifier();
  const payments = range(30).map(() => aPayment());
  const announce = async (...sequences: number[]) => {
    for (const sequence of sequences) {
      for (const payment of payments) await seedEvents(ledger, payment, [sequence]);
    }
  };

  // Killed with events of many buckets published and none of them marked.
  await announce(1, 2, 3);
  const killed = await dispatcher({ CRASH_POINTS: 'dispatcher.published=kill' });
  assert.equal((await killed.ended).signal, 'SIGKILL');
  assert.equal(await waiting(), 90);

  // Its successor loses the broker in the middle of it.
  const next = await dispatcher({ PUBSUB_EMULATOR_HOST: new URL(toBroker.url).host });
  await eventually(async () => (await waiting()) === 0, within60s('the takeover'));
  await toBroker.cut();
  await announce(4);
  const failed = /triplock_dispatcher_events_total\{outcome="unknown",[^}]*\} [1-9]/;
  await eventually(async () => failed.test(await (await next.admin('/metrics')).text()));
  await announce(5);
  assert.equal(await waiting(), 60);
  await toBroker.restore();

  // A row with a lower order id commits after later ones have been published.
  const late = aPayment();
  const [inserted, mayCommit] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const committing = ledger.transaction(async (tx) => {
    await seedEvents(tx, late, [1]);
    inserted.resolve();
    await mayCommit.promise;
  });
  await inserted.promise;
  await announce(6);
  await eventually(async () => (await waiting()) === 0, within60s('the broker'));
  mayCommit.resolve();
  await committing;

  const applied = async () => {
    const rows = await owner.query<{ line: string }>(`
      SELECT format('%s: %s events up to %s', ordering_key, count(event_id), last_sequence) AS line
      FROM notifier.cursors JOIN notifier.inbox USING (consumer, ordering_key)
      GROUP BY ordering_key, last_sequence`);
    return rows.map(({ line }) => line).sort();
  };
  const expected = [
    ...payments.map(({ txnId }) => `${txnId}: 6 events up to 6`),
    `${late.txnId}: 1 events up to 1`,
  ].sort();
  await eventually(async () => {
    assert.deepEqual(await applied(), expected);
    return true;
  }, within60s('every event applied'));
  await eventually(
    async () => seen.size === 31 && [...seen.values()].flatMap((s) => [...s]).length === 181,
  );
  for (const { txnId } of payments) assert.deepEqual([...seen.get(txnId)!], range(6));
  const [effects] = await owner.query<{ deliveries: number; altered: number }>(`
    SELECT (SELECT count(*) FROM webhooks.deliveries)::int AS deliveries,
           (SELECT count(*) FROM notifier.altered_copies)::int AS altered`);
  assert.deepEqual(effects, { deliveries: 181, altered: 0 });
});
