import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { encodePaymentEvent, type PaymentEvent } from '@triplock/contracts';
import type { Effect } from '@triplock/inbox';
import type { BatchLimits } from '@triplock/runtime';
import { aPayment, messageOf, succeeded } from '@triplock/testing';
import { aConsumer } from './test/consumer-under-test.ts';

const rememberIds: Effect<PaymentEvent> = async (tx, events) => {
  const ids = events.map(({ id }) => id);
  await tx.query('INSERT INTO effects SELECT * FROM unnest($1::uuid[])', [ids]);
};

/** A consumer in the notifier's schema whose effect is a row. */
async function aRememberer(context: TestContext, batch?: BatchLimits) {
  const consumer = await aConsumer(context, {
    name: 'a-consumer',
    shortName: 'notifier',
    role: 'triplock_notifier',
    effect: rememberIds,
    ...(batch !== undefined && { batch }),
  });
  await consumer.store.open().query(`
    CREATE TABLE notifier.effects (event_id uuid NOT NULL);
    GRANT SELECT, INSERT ON notifier.effects TO triplock_notifier`);
  const lines: object[] = [];
  consumer.logger.info = (...line: unknown[]) => void lines.push(line);
  const counted = (what: string) =>
    consumer.metrics.getSingleMetricAsString(`triplock_notifier_${what}_total`);
  return { ...consumer, counted, lines };
}

test('an event that comes three times takes effect once, and its copies are counted', async (context) => {
  const { handle, rows, counted } = await aRememberer(context);
  const event = succeeded(aPayment());
  for (let copy = 0; copy < 3; copy += 1) assert.equal(await handle(messageOf(event)), 'ack');
  assert.equal((await rows('SELECT FROM effects')).length, 1);
  assert.match(await counted('events'), /outcome="duplicate",[^}]*\} 2/);
});

test('what follows a commit begins after it, and not where nothing was committed', async (context) => {
  const seen: Promise<object[]>[] = [];
  const { store, handle, rows } = await aConsumer(context, {
    name: 'a-consumer',
    shortName: 'notifier',
    role: 'triplock_notifier',
    effect: async (tx, events) => {
      await rememberIds(tx, events);
      return () => void seen.push(rows('SELECT FROM effects'));
    },
  });
  const message = messageOf(succeeded(aPayment()));
  await assert.rejects(handle(message), /effects/);
  assert.equal(seen.length, 0);
  await store.open().query(`
    CREATE TABLE notifier.effects (event_id uuid NOT NULL);
    GRANT SELECT, INSERT ON notifier.effects TO triplock_notifier`);
  assert.equal(await handle(message), 'ack');
  assert.deepEqual([seen.length, (await seen[0]!).length], [1, 1]);
});

test('copies that come together are one counted line of the log, with some of their ids', async (context) => {
  const { handle, lines, counted } = await aRememberer(context, { apartMs: 1_000, itemsMax: 40 });
  const events = Array.from({ length: 40 }, () => succeeded(aPayment()));
  const deliver = () => Promise.all(events.map((event) => handle(messageOf(event))));
  await deliver();
  assert.deepEqual(lines, []);
  await deliver();
  const ids = new Set(events.map((event) => event.event_id));
  const shown = lines as unknown as [{ count: number; eventIds: string[] }, string][];
  // The first of a batch may go alone.
  assert.ok(shown.length <= 2, `${shown.length} lines`);
  assert.equal(
    shown.reduce((sum, [{ count }]) => sum + count, 0),
    40,
  );
  assert.ok(shown.every(([{ eventIds }]) => eventIds.length <= 5));
  assert.ok(shown.flatMap(([{ eventIds }]) => eventIds).every((id) => ids.has(id as never)));
  assert.match(await counted('events'), /outcome="duplicate",[^}]*\} 40/);
});

test('a consumer that dies before its acknowledgement takes effect once', async (context) => {
  const { handle, rows, crashPoints } = await aRememberer(context);
  const message = messageOf(succeeded(aPayment()));
  crashPoints.arm({ name: 'notifier.received', action: { do: 'throw' } });
  await assert.rejects(handle(message), /crash point/);
  assert.equal((await rows('SELECT FROM effects')).length, 0);
  crashPoints.arm({ name: 'notifier.committed', action: { do: 'throw' } });
  await assert.rejects(handle(message), /crash point/);
  assert.equal(await handle(message), 'ack');
  assert.equal((await rows('SELECT FROM effects')).length, 1);
});

test('an event that comes before its predecessor is acknowledged, kept, and takes effect after it', async (context) => {
  const { handle, rows, counted } = await aRememberer(context);
  const first = succeeded(aPayment());
  const later = { ...succeeded(aPayment()), payment_id: first.payment_id, sequence: 2 };
  assert.equal(await handle(messageOf(later)), 'ack');
  assert.equal((await rows('SELECT FROM effects')).length, 0);
  // What has nothing to do with it goes on.
  assert.equal(await handle(messageOf(succeeded(aPayment()))), 'ack');
  assert.equal(await handle(messageOf(first)), 'ack');
  assert.equal((await rows('SELECT FROM effects')).length, 3);
  assert.match(await counted('events'), /outcome="early",[^}]*\} 1/);
});

test('when too many events of a payment came early the next is given back', async (context) => {
  const { handle, counted } = await aRememberer(context);
  const { payment_id } = succeeded(aPayment());
  const early = (sequence: number) => ({ ...succeeded(aPayment()), payment_id, sequence });
  for (let sequence = 2; sequence < 102; sequence += 1) {
    assert.equal(await handle(messageOf(early(sequence))), 'ack');
  }
  assert.equal(await handle(messageOf(early(102))), 'nack');
  assert.match(await counted('events'), /outcome="returned",[^}]*\} 1/);
});

test('an altered copy is acknowledged, kept for people and has no effect', async (context) => {
  const { handle, rows } = await aRememberer(context);
  const event = succeeded(aPayment());
  await handle(messageOf(event));
  const altered = { ...event, timestamp: '2020-01-01T00:00:00.000Z' };
  assert.equal(await handle(messageOf(altered)), 'ack');
  assert.equal((await rows('SELECT FROM effects')).length, 1);
  assert.deepEqual(await rows('SELECT event_id FROM altered_copies'), [
    { event_id: event.event_id },
  ]);
});

test('a message that is no event is kept with its bytes, and the next one goes on', async (context) => {
  const { handle, rows, counted } = await aRememberer(context);
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
  assert.match(await counted('refused_messages'), /reason="unstorable",[^}]*\} 2/);
  assert.equal(await handle(messageOf(event)), 'ack');
});
