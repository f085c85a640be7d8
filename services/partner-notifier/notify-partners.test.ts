import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { encodePaymentEvent } from '@triplock/contracts';
import { eventsHandler, gatherEvents, openInbox, openRefusedMessages } from '@triplock/inbox';
import { createCrashPoints, createLogger, createMetrics } from '@triplock/runtime';
import { aPayment, createTestDatabase, messageOf, succeeded } from '@triplock/testing';
import { notifierMetrics } from './metrics.ts';
import { notifyPartners } from './notify-partners.ts';

async function aSubscriber(context: TestContext) {
  const database = (await createTestDatabase(context)).open('triplock_notifier');
  const crashPoints = createCrashPoints();
  const metrics = notifierMetrics(createMetrics('test'));
  const inbox = openInbox(database, 'partner-notifier');
  const together = { apartMs: 0, itemsMax: 100 };
  const handle = eventsHandler({
    receive: gatherEvents((received) => notifyPartners(inbox, received), together),
    refusedMessages: openRefusedMessages(database, 'partner-notifier'),
    metrics,
    logger: createLogger({ service: 'test', instance: 'test', level: 'silent' }),
    reached: (step) => crashPoints.reached(`notifier.${step}`),
  });
  const rows = <Row extends object>(sql: string) => database.query<Row>(sql);
  return { handle, rows, crashPoints, metrics };
}

test('an event published three times becomes one delivery with the body of the event', async (context) => {
  const { handle, rows, metrics } = await aSubscriber(context);
  const event = succeeded(aPayment({ metadata: { b: '2', a: '1' } }));
  for (let copy = 0; copy < 3; copy += 1) assert.equal(await handle(messageOf(event)), 'ack');
  assert.deepEqual(metrics.caught.counted(), { inbox: 2 });
  const deliveries = await rows<{ body: string }>('SELECT * FROM deliveries');
  assert.equal(deliveries.length, 1);
  const { type, timestamp, sequence, data } = event;
  assert.deepEqual(JSON.parse(deliveries[0]!.body), { type, timestamp, sequence, data });
  assert.partialDeepStrictEqual(deliveries[0], {
    event_id: event.event_id,
    partner_id: 'acme',
    txn_id: event.txn_id,
    state: 'pending',
    attempts: 0,
  });
});

test('an event that comes before its predecessor is given back and delivered later', async (context) => {
  const { handle, rows } = await aSubscriber(context);
  const first = succeeded(aPayment());
  const later = { ...succeeded(aPayment()), payment_id: first.payment_id, sequence: 2 };
  assert.equal(await handle(messageOf(later)), 'nack');
  assert.equal((await rows('SELECT FROM deliveries')).length, 0);
  assert.equal(await handle(messageOf(first)), 'ack');
  assert.equal(await handle(messageOf(later)), 'ack');
  assert.equal((await rows('SELECT FROM deliveries')).length, 2);
});

test('an altered copy is acknowledged, kept for people and not delivered', async (context) => {
  const { handle, rows } = await aSubscriber(context);
  const event = succeeded(aPayment());
  await handle(messageOf(event));
  const altered = { ...event, timestamp: '2020-01-01T00:00:00.000Z' };
  assert.equal(await handle(messageOf(altered)), 'ack');
  assert.equal((await rows('SELECT FROM deliveries')).length, 1);
  assert.deepEqual(await rows('SELECT event_id FROM altered_copies'), [
    { event_id: event.event_id },
  ]);
});

test('a message that is no event is kept with its bytes, and the next one goes on', async (context) => {
  const { handle, rows, metrics } = await aSubscriber(context);
  const event = succeeded(aPayment());
  const { payload, attributes } = encodePaymentEvent(event);
  const { event_id: _dropped, ...anonymous } = attributes('');
  const poisons = {
    missing_attributes: messageOf(event, { attributes: anonymous }),
    unknown_type: messageOf(event, {
      attributes: { ...attributes(''), event_type: 'payment.exploded' },
    }),
    invalid_event: messageOf(event, { data: Buffer.from([0, 255]) }),
    forged_id: messageOf({ ...event, event_id: event.txn_id as never }),
    unstorable: messageOf({ ...event, sequence: 3_000_000_000 }),
  };
  for (const [reason, message] of Object.entries(poisons)) {
    assert.equal(await handle(message), 'ack', reason);
    assert.equal(await handle(message), 'ack', reason);
  }
  const kept = await rows<{ reason: string; data: Buffer }>(
    'SELECT reason, data FROM refused_messages ORDER BY first_seen',
  );
  assert.deepEqual(
    kept.map(({ reason }) => reason),
    Object.keys(poisons),
  );
  assert.deepEqual(kept[0]!.data, Buffer.from(payload));
  assert.equal(Object.keys(metrics.refusedMessages.counted()).length, 5);
  assert.equal(await handle(messageOf(event)), 'ack');
});

test('a notifier that dies between commit and acknowledgement delivers once', async (context) => {
  const { handle, rows, crashPoints } = await aSubscriber(context);
  const event = succeeded(aPayment());
  crashPoints.arm({ name: 'notifier.received', action: { do: 'throw' } });
  await assert.rejects(handle(messageOf(event)), /crash point/);
  assert.equal((await rows('SELECT FROM deliveries')).length, 0);
  crashPoints.arm({ name: 'notifier.committed', action: { do: 'throw' } });
  await assert.rejects(handle(messageOf(event)), /crash point/);
  assert.equal((await rows('SELECT FROM deliveries')).length, 1);
  assert.equal(await handle(messageOf(event)), 'ack');
  assert.equal((await rows('SELECT FROM deliveries')).length, 1);
});
