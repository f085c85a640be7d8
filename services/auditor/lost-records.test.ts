import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { encodePaymentAccepted } from '@triplock/contracts';
import { createLogger, createMetrics } from '@triplock/runtime';
import { aPayment, createTestDatabase } from '@triplock/testing';
import type { Bounds, ReceivedRecord } from '@triplock/transport';
import { recordAcceptedBatch } from './kafka-records.ts';
import { findLostRecords } from './lost-records.ts';
import { auditorMetrics } from './metrics.ts';

const topic = 'payments.accepted.v1';

/** An auditor, and a log of partitions that a test may shorten at either end. */
async function anAuditor(context: TestContext) {
  const database = (await createTestDatabase(context)).open('triplock_auditor');
  const bounds = new Map<number, Bounds>([[0, { start: 0n, end: 0n }]]);
  const lost = {
    database,
    log: { topic, bounds: async () => bounds },
    logger: createLogger({ service: 'test', instance: 'test', level: 'silent' }),
    confirmMs: 0,
  };
  const record = recordAcceptedBatch(lost, auditorMetrics(createMetrics('test')));
  return {
    bounds,
    look: () => findLostRecords(lost),
    read: (...offsets: bigint[]) => record({ records: offsets.map(aRecord) }),
    again: (records: readonly ReceivedRecord[]) => record({ records }),
    found: () =>
      database.query(
        `SELECT kafka_partition AS partition, from_offset AS from, to_offset AS to, why
         FROM accepted_lost ORDER BY lost_id`,
      ),
    next: async () => {
      const [row] = await database.query<{ next_offset: bigint }>(
        'SELECT next_offset FROM accepted_positions WHERE kafka_partition = 0',
      );
      return row?.next_offset;
    },
  };
}

function aRecord(offset: bigint): ReceivedRecord {
  const { key, value, headers } = encodePaymentAccepted(aPayment(), '');
  const partner = { partner_id: Buffer.from(headers.partner_id) };
  return {
    ...{ topic, partition: 0, offset, key: Buffer.from(key), value },
    ...{ headers: partner, timestamp: '0' },
  };
}

test('what was deleted up to the end while nobody read is lost, once, and found without any record', async (context) => {
  const { bounds, look, read, found, next } = await anAuditor(context);
  await look();
  await read(0n, 1n);
  bounds.set(0, { start: 0n, end: 5n });
  await look();
  assert.deepEqual([await found(), await next()], [[], 2n]);
  bounds.set(0, { start: 5n, end: 5n });
  await look();
  await look();
  assert.deepEqual(await found(), [{ partition: 0, from: 2n, to: 5n, why: 'dropped' }]);
  assert.equal(await next(), 5n);
});

test('what was deleted before the records that are read now is lost', async (context) => {
  const { bounds, look, read, found, next } = await anAuditor(context);
  await look();
  await read(0n);
  bounds.set(0, { start: 4n, end: 6n });
  await read(4n, 5n);
  await look();
  assert.deepEqual(await found(), [{ partition: 0, from: 1n, to: 4n, why: 'dropped' }]);
  assert.equal(await next(), 6n);
});

test('a control record or an aborted transaction inside the log is no loss, nor is a redelivery', async (context) => {
  const { bounds, look, again, found, next } = await anAuditor(context);
  await look();
  const records = [0n, 1n, 5n, 9n].map(aRecord);
  bounds.set(0, { start: 0n, end: 11n });
  await again(records.slice(0, 2));
  await again(records.slice(2));
  await again(records);
  await again(records.slice(0, 1));
  await look();
  assert.deepEqual([await found(), await next()], [[], 10n]);
});

test('an end that is before what was read is believed when it is still so', async (context) => {
  const { bounds, look, read, found, next } = await anAuditor(context);
  await look();
  await read(0n, 1n, 2n);
  const electing = [1n, 3n].map((end) => ({ start: 0n, end }));
  const forget = bounds.get.bind(bounds);
  bounds.get = () => electing.shift();
  await look();
  assert.deepEqual([await found(), electing], [[], []]);
  bounds.get = forget;
  bounds.set(0, { start: 0n, end: 1n });
  await look();
  assert.deepEqual(await found(), [{ partition: 0, from: 1n, to: 3n, why: 'cut-off' }]);
  assert.equal(await next(), 1n);
});

test('a topic made anew is seen by new records at offsets that had been passed', async (context) => {
  const { bounds, look, read, found, next } = await anAuditor(context);
  await look();
  await read(0n, 1n, 2n, 3n);
  bounds.set(0, { start: 0n, end: 6n });
  await read(0n, 1n);
  assert.deepEqual(await found(), [{ partition: 0, from: 0n, to: 4n, why: 'begun-again' }]);
  assert.equal(await next(), 2n);
  await read(2n, 3n, 4n, 5n);
  await look();
  assert.equal((await found()).length, 1);
});

test('what left the log before it was ever read is no loss; of a partition added later it is', async (context) => {
  const { bounds, look, read, found } = await anAuditor(context);
  bounds.set(0, { start: 7n, end: 9n });
  await look();
  await read(7n, 8n);
  assert.deepEqual(await found(), []);
  bounds.set(1, { start: 2n, end: 2n });
  await look();
  assert.deepEqual(await found(), [{ partition: 1, from: 0n, to: 2n, why: 'dropped' }]);
});
