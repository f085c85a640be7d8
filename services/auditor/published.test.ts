import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { messageHandler } from '@triplock/consumer';
import { encodePaymentEvent, followUpEventOf, type PaymentEvent } from '@triplock/contracts';
import type { FollowUp } from '@triplock/payments';
import { createCrashPoints, createLogger, createMetrics } from '@triplock/runtime';
import { aPayment, aRefund, createTestDatabase } from '@triplock/testing';
import { succeededEvent } from '@triplock/testing/test';
import type { IncomingMessage } from '@triplock/transport';
import { auditorMetrics } from './metrics.ts';
import { countPublished } from './published.ts';

async function anAuditor(context: TestContext) {
  const database = (await createTestDatabase(context)).open('triplock_auditor');
  const crashPoints = createCrashPoints();
  const metrics = createMetrics('test');
  const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
  const handle = messageHandler(
    { logger, metrics, crashPoints },
    { name: 'auditor', shortName: 'auditor', database },
    countPublished(database, auditorMetrics(metrics), logger),
  );
  return {
    handle,
    crashPoints,
    rows: <Row extends object>(sql: string) => database.query<Row>(sql),
  };
}

let messages = 0;

function messageOf(event: PaymentEvent, wish: Partial<IncomingMessage> = {}): IncomingMessage {
  const { payload, attributes } = encodePaymentEvent(event);
  messages += 1;
  return {
    id: `message-${messages}`,
    data: Buffer.from(payload),
    attributes: attributes(''),
    orderingKey: '',
    deliveryAttempt: 1,
    publishTime: new Date(),
    ...wish,
  };
}

test('every copy of an event is counted, and an altered one is recognized', async (context) => {
  const { handle, rows } = await anAuditor(context);
  const event = succeededEvent(aPayment({ amount: 42n }));
  const altered = { ...event, timestamp: '2020-01-01T00:00:00.000Z' };
  for (const each of [event, event, altered]) assert.equal(await handle(messageOf(each)), 'ack');
  const sql = 'SELECT event_id, copies, altered, currency, amount FROM published';
  assert.deepEqual(await rows(sql), [
    { event_id: event.event_id, copies: 3, altered: 1, currency: 'EUR', amount: 42n },
  ]);
});

test('a refund that failed because nothing of it fitted has no amount', async (context) => {
  const { handle, rows } = await anAuditor(context);
  const failed: FollowUp = {
    ...aRefund(aPayment()),
    state: 'failed',
    version: 2,
    settledAt: new Date(),
    failure: { code: 'amount_exceeds_refundable', message: 'More than what is left.' },
  };
  const event = followUpEventOf({ followUp: failed, orderedBy: failed.paymentId, sequence: 2 });
  await handle(messageOf(event));
  assert.deepEqual(await rows('SELECT event_type, sequence, amount, currency FROM published'), [
    { event_type: 'refund.failed', sequence: 2, amount: null, currency: null },
  ]);
});

test('events are counted in any order, without waiting for a predecessor', async (context) => {
  const { handle, rows } = await anAuditor(context);
  await handle(messageOf({ ...succeededEvent(aPayment()), sequence: 5 }));
  assert.deepEqual(await rows('SELECT sequence FROM published'), [{ sequence: 5 }]);
});

test('a message that is no event is kept and acknowledged', async (context) => {
  const { handle, rows } = await anAuditor(context);
  const event = succeededEvent(aPayment());
  const poisons = [
    messageOf(event, { data: Buffer.from('not json') }),
    messageOf(event, { attributes: {} }),
    messageOf({ ...event, sequence: 3_000_000_000 }),
  ];
  for (const message of poisons) assert.equal(await handle(message), 'ack');
  const kept = await rows<{ reason: string }>(
    'SELECT reason FROM refused_messages ORDER BY first_seen',
  );
  assert.deepEqual(
    kept.map(({ reason }) => reason),
    ['invalid_event', 'missing_attributes', 'unstorable'],
  );
  assert.deepEqual(await rows('SELECT FROM published'), []);
});

test('deliveries that come together are counted each for itself', async (context) => {
  const { handle, rows } = await anAuditor(context);
  const [one, other] = [succeededEvent(aPayment()), succeededEvent(aPayment())];
  const altered = { ...other, timestamp: '2020-01-01T00:00:00.000Z' };
  const unstorable = { ...succeededEvent(aPayment()), sequence: 3_000_000_000 };
  const together = [one, other, one, unstorable, one, altered].map((each) => messageOf(each));
  const answers = await Promise.all(together.map((message) => handle(message)));
  assert.deepEqual(new Set(answers), new Set(['ack']));
  assert.deepEqual(
    await rows('SELECT event_id, copies, altered FROM published ORDER BY copies DESC'),
    [
      { event_id: one.event_id, copies: 3, altered: 0 },
      { event_id: other.event_id, copies: 2, altered: 1 },
    ],
  );
  assert.deepEqual(await rows('SELECT reason FROM refused_messages'), [{ reason: 'unstorable' }]);
});

test('an auditor that dies before it counts has counted nothing, and one before its acknowledgement counts the copy', async (context) => {
  const { handle, crashPoints, rows } = await anAuditor(context);
  const message = messageOf(succeededEvent(aPayment()));
  crashPoints.arm({ name: 'auditor.received', action: { do: 'throw' } });
  await assert.rejects(handle(message), /crash point/);
  assert.deepEqual(await rows('SELECT FROM published'), []);
  crashPoints.arm({ name: 'auditor.committed', action: { do: 'throw' } });
  await assert.rejects(handle(message), /crash point/);
  assert.equal(await handle(message), 'ack');
  assert.deepEqual(await rows('SELECT copies, altered FROM published'), [
    { copies: 2, altered: 0 },
  ]);
});

test('the auditor keeps no inbox, so nothing keeps a copy from being counted', async (context) => {
  const { rows } = await anAuditor(context);
  const unused = ['inbox', 'cursors', 'altered_copies', 'inbox_horizons'];
  const found = await rows(
    `SELECT FROM pg_tables WHERE schemaname = 'auditor' AND tablename IN ('${unused.join("','")}')`,
  );
  assert.equal(found.length, 0);
});
