import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createTestDatabase, createTestTopic } from '@triplock/testing';
import { Kafka, logLevel } from 'kafkajs';
import { listDeadLetters, redrive, showDeadLetter, type Stores } from './dead-letters.ts';
import { parseLetterId } from './letter-id.ts';
import { readLetters } from './read-letters.ts';

const request = { by: 'ada', why: 'mended', again: false };
const eventIds = [1, 2, 3].map((n) => `00000000-0000-8000-8000-00000000000${n}`);
const paymentId = '00000000-0000-8000-8000-0000000000aa';

async function someStores(context: TestContext): Promise<Stores> {
  const database = (await createTestDatabase(context)).open();
  const { brokers, topic: deadLetter } = await createTestTopic(context, { partitions: 2 });
  const { topic: accepted } = await createTestTopic(context);
  const kafka = new Kafka({ brokers, clientId: 'test', logLevel: logLevel.NOTHING });
  return { database, kafka, topics: { accepted, deadLetter } };
}

async function aDeadRecord({ kafka, topics }: Stores) {
  const producer = kafka.producer();
  await producer.connect();
  const headers = {
    partner_id: 'acme',
    'dead-letter.reason': 'not_json',
    'original.dead-letter.reason': 'its own',
  };
  const record = { key: 'a key', value: Buffer.from([0, 255, 7]), headers };
  await producer.send({ topic: topics.deadLetter, messages: [{ ...record, partition: 1 }] });
  await producer.disconnect();
}

test('a Kafka letter is listed, and redriven with its own key, bytes and headers, once', async (context) => {
  const stores = await someStores(context);
  assert.deepEqual(await listDeadLetters(stores), []);
  await aDeadRecord(stores);
  const [letter] = await listDeadLetters(stores);
  assert.equal(letter?.id, 'kafka:1:0');
  assert.deepEqual([letter.partner, letter.reason, letter.redriven], ['acme', 'not_json', null]);

  const id = parseLetterId('kafka:1:0');
  const results = await Promise.all([redrive(stores, id, request), redrive(stores, id, request)]);
  assert.deepEqual(results.map(({ outcome }) => outcome).sort(), ['redriven', 'redriven-before']);
  const records = await readLetters(stores.kafka, { topic: stores.topics.accepted });
  assert.deepEqual(
    records.map(({ key, value, headers }) => [key, value, headers]),
    [
      [
        Buffer.from('a key'),
        Buffer.from([0, 255, 7]),
        { partner_id: Buffer.from('acme'), 'dead-letter.reason': Buffer.from('its own') },
      ],
    ],
  );
  assert.equal((await redrive(stores, id, { ...request, again: true })).outcome, 'redriven');
  const [known] = await listDeadLetters(stores);
  assert.deepEqual([known?.redriven?.by, known?.redriven?.why], ['ada', 'mended']);
});

test('a parked event and its payment’s later ones wait again, in order', async (context) => {
  const stores = await someStores(context);
  for (const [n, eventId] of eventIds.entries()) {
    await stores.database.query(
      `INSERT INTO ledger.outbox (event_id, event_type, txn_id, payment_id, partner_id, bucket,
         sequence, payload, traceparent, state, parked_reason)
       VALUES ($1, 'payment.succeeded', $2::uuid, $2::uuid, 'acme', 0, $3, '{}', 't', 'parked', $4)`,
      [eventId, paymentId, n + 1, n === 0 ? 'too large' : `behind ${eventIds[0]}`],
    );
  }
  const id = parseLetterId(`outbox:${eventIds[0]}`);
  const listed = await listDeadLetters(stores);
  assert.deepEqual(
    listed.map((letter) => [letter.id, letter.reason]),
    [[`outbox:${eventIds[0]}`, 'too large']],
  );
  const shown = (await showDeadLetter(stores, id)) as { events: { event_id: string }[] };
  assert.deepEqual(
    shown.events.map((event) => event.event_id),
    eventIds,
  );
  const first = await redrive(stores, id, request);
  assert.deepEqual(first.outcome === 'redriven' && first.ids.sort(), eventIds);
  assert.equal((await redrive(stores, id, request)).outcome, 'redriven-before');
  const states = await stores.database.query('SELECT DISTINCT state FROM ledger.outbox');
  assert.deepEqual(states, [{ state: 'pending' }]);
  assert.deepEqual(await listDeadLetters(stores), []);
});

test('a webhook that was given up is due again with all its time', async (context) => {
  const stores = await someStores(context);
  await stores.database.query(
    `INSERT INTO notifier.deliveries (event_id, partner_id, txn_id, body, state, attempts,
       first_attempt_at, finished_at, last_error)
     VALUES ($1, 'acme', $2, '{}', 'failed', 9, now() - interval '1 day', now(), 'ECONNREFUSED')`,
    [eventIds[0], paymentId],
  );
  const id = parseLetterId(`webhook:${eventIds[0]}`);
  assert.equal(
    (await listDeadLetters(stores))[0]?.reason,
    'given up after 9 attempts, ECONNREFUSED',
  );
  assert.equal((await redrive(stores, id, request)).outcome, 'redriven');
  const rows = await stores.database.query(
    'SELECT state, attempts, first_attempt_at, next_attempt_at <= now() AS due FROM notifier.deliveries',
  );
  assert.deepEqual(rows, [{ state: 'pending', attempts: 9, first_attempt_at: null, due: true }]);
});

test('what is not there is not redriven, and nothing is recorded', async (context) => {
  const stores = await someStores(context);
  for (const id of ['kafka:0:7', `outbox:${eventIds[0]}`, `webhook:${eventIds[0]}`]) {
    assert.deepEqual(await redrive(stores, parseLetterId(id), request), { outcome: 'not-found' });
    assert.equal(await showDeadLetter(stores, parseLetterId(id)), undefined);
  }
  assert.deepEqual(await stores.database.query('SELECT FROM auditor.operator_acts'), []);
});

test('an act stays as it was recorded', async (context) => {
  const { database } = await someStores(context);
  for (const change of [
    `UPDATE auditor.operator_acts SET why = 'x'`,
    'DELETE FROM auditor.operator_acts',
  ]) {
    await assert.rejects(database.query(change), /history is only added to/);
  }
});

test('only ids of dead letters are taken', () => {
  for (const text of [
    '',
    'kafka:1',
    'kafka:-1:0',
    'outbox:1',
    'stripe:1',
    `webhook:${paymentId}x`,
  ]) {
    assert.throws(() => parseLetterId(text), /is no dead letter/);
  }
});
