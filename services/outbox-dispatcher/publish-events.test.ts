import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bucketCount, decodePaymentEvent } from '@triplock/contracts';
import { bucketOf, deriveEventId } from '@triplock/payments';
import { CrashPointError, createLogger } from '@triplock/runtime';
import { aPayment, eventually, seedEvents } from '@triplock/testing';
import { openSubscriber, type IncomingMessage, type OutgoingMessage } from '@triplock/transport';
import { publishEvents } from './publish-events.ts';
import { aDispatcherSetup, paymentsOfOneBucket, traceparent } from './test/dispatcher.ts';

const eventIdsOf = (messages: readonly IncomingMessage[]) =>
  messages.map(({ attributes }) => attributes['event_id']);
const countOf = (rows: readonly { state: string }[], state: string) =>
  rows.filter((row) => row.state === state).length;

test('every event is published once, in the order of its bucket, and is marked', async (context) => {
  const orderingKeys = 8;
  const { post, dispatcher, rows, received } = await aDispatcherSetup(context);
  for (let batch = 0; batch < 5; batch += 1) {
    await post(...Array.from({ length: 60 }, () => aPayment()));
  }
  assert.equal(await dispatcher({ orderingKeys }).pass(), 300);
  const inOutbox = await rows();
  assert.equal(countOf(inOutbox, 'published'), 300);
  await eventually(async () => received.length >= 300);
  for (const [bucket, ofBucket] of Map.groupBy(inOutbox, (row) => row.bucket)) {
    const ids = ofBucket.map(({ eventId }) => eventId);
    const delivered = received.filter(({ attributes }) => ids.includes(attributes['event_id']!));
    assert.deepEqual(eventIdsOf(delivered), ids);
    const keys = new Set(delivered.map(({ orderingKey }) => orderingKey));
    assert.deepEqual([...keys], [`key-${bucket % orderingKeys}`]);
  }
});

test('an event carries its payload byte for byte and attributes that a consumer accepts', async (context) => {
  const { post, dispatcher, received, store } = await aDispatcherSetup(context);
  const payment = aPayment();
  await post(payment);
  await dispatcher().pass();
  await eventually(async () => received.length === 1);
  const [message] = received;
  const [row] = await store.open().query<{ payload: string }>('SELECT payload FROM ledger.outbox');
  assert.equal(message?.data.toString(), row?.payload);
  assert.equal(message?.orderingKey, `key-${bucketOf(payment.txnId, bucketCount)}`);
  assert.deepEqual(
    { ...message?.attributes },
    {
      event_id: deriveEventId(payment.txnId, 'payment.succeeded'),
      event_type: 'payment.succeeded',
      txn_id: payment.txnId,
      payment_id: payment.txnId,
      sequence: '1',
      traceparent,
    },
  );
  assert.equal(decodePaymentEvent(message).outcome, 'event');
});

test('each event is in the archive, byte for byte, before anybody is told, and nothing is published without', async (context) => {
  const { post, dispatcher, rows, received, archived, store } = await aDispatcherSetup(context);
  // So few that no bucket has more than one look takes of it.
  await post(...Array.from({ length: 200 }, () => aPayment()));
  let away = true;
  const append = (texts: readonly string[]) =>
    away ? Promise.reject(new Error('Kafka is away')) : parts.archive.append(texts);
  const { parts, crashPoints } = dispatcher();
  const pass = publishEvents({ ...parts, archive: { append } });
  await assert.rejects(pass(), /Kafka is away/);
  away = false;
  crashPoints.arm({ name: 'dispatcher.archived', action: { do: 'throw' } });
  await assert.rejects(pass(), CrashPointError);
  assert.equal(countOf(await rows(), 'pending'), 200);
  const payloads = await store
    .open()
    .query<{ payload: string }>('SELECT payload FROM ledger.outbox');
  const texts = payloads.map(({ payload }) => payload).sort();
  assert.deepEqual((await archived()).toSorted(), texts);
  assert.deepEqual(received, []);
  assert.equal(await pass(), 200);
  await eventually(async () => received.length === 200);
  // What one process has archived it does not archive again.
  assert.equal((await archived()).length, 200);
});

test('a crash between the publish and the mark publishes the same event again', async (context) => {
  const { post, dispatcher, rows, received } = await aDispatcherSetup(context);
  await post(...paymentsOfOneBucket(3));
  const { pass, crashPoints } = dispatcher();
  crashPoints.arm({ name: 'dispatcher.published', action: { do: 'throw' } });
  await assert.rejects(pass(), CrashPointError);
  assert.equal(countOf(await rows(), 'pending'), 3);
  assert.equal(await pass(), 3);
  await eventually(async () => received.length === 6);
  const inOutbox = (await rows()).map(({ eventId }) => eventId);
  assert.deepEqual(eventIdsOf(received), [...inOutbox, ...inOutbox]);
});

test('a crash after leasing has published nothing, and the lease serves its owner again', async (context) => {
  const { post, dispatcher, received } = await aDispatcherSetup(context);
  await post(...paymentsOfOneBucket(2));
  const { pass, crashPoints } = dispatcher();
  crashPoints.arm({ name: 'dispatcher.leased', action: { do: 'throw' } });
  await assert.rejects(pass(), CrashPointError);
  assert.equal(received.length, 0);
  assert.equal(await pass(), 2);
  assert.equal(await pass(), 0);
  await eventually(async () => received.length === 2);
});

test('a crash after the mark publishes nothing again', async (context) => {
  const { post, dispatcher, received } = await aDispatcherSetup(context);
  await post(...paymentsOfOneBucket(2));
  const { pass, crashPoints } = dispatcher();
  crashPoints.arm({ name: 'dispatcher.marked', action: { do: 'throw' } });
  await assert.rejects(pass(), CrashPointError);
  assert.equal(await pass(), 0);
  await post(aPayment());
  assert.equal(await pass(), 1);
  await eventually(async () => received.length === 3);
});

test('an event that can never be published is parked, and its bucket goes on', async (context) => {
  const { post, dispatcher, rows, received } = await aDispatcherSetup(context);
  const payments = paymentsOfOneBucket(4);
  await post(...payments);
  const inOutbox = (await rows()).map(({ eventId }) => eventId);
  // Pub/Sub refuses a message that is empty; an event of ours never is.
  const spoil = (message: OutgoingMessage): OutgoingMessage =>
    message.attributes['event_id'] === inOutbox[1]
      ? { ...message, data: Buffer.alloc(0), attributes: {} as { event_id: string } }
      : message;
  const { pass } = dispatcher({
    wrap: ({ publishInOrder }) => ({ publishInOrder: (all) => publishInOrder(all.map(spoil)) }),
  });
  assert.equal(await pass(), 2);
  assert.equal(await pass(), 2);
  const states = (await rows()).map(({ state }) => state);
  assert.deepEqual(states, ['published', 'parked', 'published', 'published']);
  assert.match((await rows())[1]?.reason ?? '', /empty/);
  await eventually(async () => received.length === 3);
  assert.deepEqual(eventIdsOf(received), [inOutbox[0], inOutbox[2], inOutbox[3]]);
});

test('behind an event that can never be published its payment waits, and its bucket goes on', async (context) => {
  const { store, dispatcher, rows, received } = await aDispatcherSetup(context);
  const ledger = store.open('triplock_ledger');
  const [payment, neighbour] = paymentsOfOneBucket(2);
  const first = await seedEvents(ledger, payment!, [1]);
  const others = await seedEvents(ledger, neighbour!, [1]);
  const [poison, ...behind] = await seedEvents(ledger, payment!, [2, 3]);
  others.push(...(await seedEvents(ledger, neighbour!, [2, 3])));
  const spoil = (message: OutgoingMessage): OutgoingMessage =>
    message.attributes['event_id'] === poison
      ? { ...message, data: Buffer.alloc(0), attributes: {} as { event_id: string } }
      : message;
  const { pass } = dispatcher({
    wrap: ({ publishInOrder }) => ({ publishInOrder: (all) => publishInOrder(all.map(spoil)) }),
  });
  await eventually(async () => (await pass()) === 0);
  // One that comes later still waits behind it.
  behind.push(...(await seedEvents(ledger, payment!, [4])));
  others.push(...(await seedEvents(ledger, neighbour!, [4])));
  await eventually(async () => (await pass()) === 0);
  const states = new Map((await rows()).map(({ eventId, state }) => [eventId, state]));
  assert.deepEqual(
    [poison!, ...behind].map((eventId) => states.get(eventId)),
    ['parked', 'parked', 'pending'],
  );
  await eventually(async () => received.length === 5);
  assert.deepEqual(eventIdsOf(received), [...first, ...others]);
});

test('what was taken from a server that is gone is published by nobody, and the text of the next is archived too', async (context) => {
  const { post, dispatcher, rows, received, archived } = await aDispatcherSetup(context);
  await post(aPayment());
  const { parts, outbox } = dispatcher();
  let gone = true;
  const pass = publishEvents({
    ...parts,
    outbox: {
      ...outbox,
      // The one that takes over decided the same anew.
      take: async (...wanted) => {
        const taken = await outbox.take(...wanted);
        return taken.map((row) => (gone ? { ...row, payload: `${row.payload} ` } : row));
      },
      server: async () => (gone ? 'the next' : outbox.server!()),
    },
  });
  await assert.rejects(pass(), /another server has the outbox by now/);
  gone = false;
  assert.equal(countOf(await rows(), 'pending'), 1);
  assert.equal(await pass(), 1);
  await eventually(async () => received.length === 1);
  const [told] = received.map(({ data }) => data.toString());
  assert.deepEqual(await archived(), [`${told} `, told]);
});

test('an event appended while others wait for their broker comes after them', async (context) => {
  const { post, dispatcher, rows, received } = await aDispatcherSetup(context);
  const [first, second, third] = paymentsOfOneBucket(3);
  await post(first!, second!);
  let away = true;
  const { pass } = dispatcher({
    wrap: (publisher) => ({
      publishInOrder: async (messages) =>
        away
          ? messages.map(() => ({ outcome: 'unknown' as const, error: new Error('away') }))
          : publisher.publishInOrder(messages),
    }),
  });
  await assert.rejects(pass(), /away/);
  assert.equal(countOf(await rows(), 'pending'), 2);
  await post(third!);
  away = false;
  assert.equal(await pass(), 3);
  await eventually(async () => received.length === 3);
  assert.deepEqual(
    eventIdsOf(received),
    (await rows()).map(({ eventId }) => eventId),
  );
});

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

test('a consumer that is added later gets every event by republishing, byte for byte', async (context) => {
  const { store, events: pubsub, post, dispatcher } = await aDispatcherSetup(context);
  const database = store.open('triplock_ledger');
  const { pass: publishAll, outbox } = dispatcher();
  await post(...Array.from({ length: 40 }, () => aPayment()));
  assert.equal(await publishAll(), 40);
  assert.equal(await publishAll(), 0);

  const late = `${pubsub.topic}-late`;
  await pubsub.client.topic(pubsub.topic).createSubscription(late, { enableMessageOrdering: true });
  const seen = new Map<string, string>();
  const handle = async ({ attributes, data }: IncomingMessage) => {
    seen.set(attributes['event_id']!, data.toString());
    return 'ack' as const;
  };
  const subscription = { ...pubsub, subscription: late, maxInFlight: 100 };
  const subscriber = openSubscriber({ ...subscription, logger, handle });
  context.after(() => subscriber.close());

  const [{ now }] = (await database.query<{ now: Date }>(
    `SELECT now() + interval '1 millisecond' AS now`,
  )) as [{ now: Date }];
  const range = { since: new Date(0), until: now, rowsMax: 15 };
  const batches = [];
  for (let rows = -1; rows !== 0; batches.push(rows)) {
    rows = await outbox.republish(range);
    assert.equal(await publishAll(), rows);
  }
  assert.deepEqual(batches, [15, 15, 10, 0]);
  await eventually(async () => seen.size === 40, { withinMs: 30_000, what: 'every event' });
  await pubsub.client.subscription(late).delete();
  const rows = await database.query<{ event_id: string; payload: string }>(
    'SELECT event_id, payload FROM ledger.outbox',
  );
  assert.deepEqual([...seen].sort(), rows.map(({ event_id: id, payload }) => [id, payload]).sort());
});
