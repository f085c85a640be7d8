import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { handlerOf } from '@triplock/consumer';
import { createCrashPoints, createLogger, createMetrics } from '@triplock/runtime';
import { aPayment, createTestDatabase, messageOf, succeeded } from '@triplock/testing';
import { notifyPartners } from './deliveries.ts';

async function aSubscriber(context: TestContext) {
  const database = (await createTestDatabase(context)).open('triplock_notifier');
  const crashPoints = createCrashPoints();
  const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
  const handle = handlerOf(
    { logger, metrics: createMetrics('test'), crashPoints },
    {
      name: 'partner-notifier',
      shortName: 'notifier',
      database,
      effect: notifyPartners,
      batch: { apartMs: 0, itemsMax: 100 },
      countReaped: () => undefined,
    },
  );
  const rows = <Row extends object>(sql: string) => database.query<Row>(sql);
  return { handle, rows, crashPoints };
}

test('an event published three times becomes one delivery with the body of the event', async (context) => {
  const { handle, rows } = await aSubscriber(context);
  const event = succeeded(aPayment({ metadata: { b: '2', a: '1' } }));
  for (let copy = 0; copy < 3; copy += 1) assert.equal(await handle(messageOf(event)), 'ack');
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
