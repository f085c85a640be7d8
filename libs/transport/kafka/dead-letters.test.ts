import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestTopic } from '@triplock/testing';
import { openDeadLetters } from './dead-letters.ts';
import type { ReceivedRecord } from './record-batches.ts';
import { readTopic } from '../test/topic.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

const aRecord: ReceivedRecord = {
  topic: 'payments.accepted.v1',
  partition: 7,
  offset: 12_345n,
  key: Buffer.from('a key'),
  value: Buffer.from([0xff, 0x00, 0x7b]),
  headers: { partner_id: Buffer.from('acme'), odd: Buffer.from([0xff]) },
  timestamp: '0',
};
const refusal = { reason: 'not_json', detail: 'the value is not JSON' };

async function setAside(t: TestContext, ...records: ReceivedRecord[]) {
  const connection = await createTestTopic(t);
  const deadLetters = openDeadLetters({ ...connection, clientId: 'test', logger });
  t.after(() => deadLetters.close());
  for (const record of records) await deadLetters.append(record, refusal);
  const read = await readTopic(connection);
  return read.map(({ key, value, headers }) => ({ key, value, headers: { ...headers } }));
}

const text = (value: unknown) => (Buffer.isBuffer(value) ? value.toString() : value);

test('a dead letter keeps key, value and headers as they were and says why and where from', async (t) => {
  const [letter] = await setAside(t, aRecord);
  assert.deepEqual([letter?.key, letter?.value], [aRecord.key, aRecord.value]);
  const { 'dead-letter.at': at, ...headers } = letter!.headers;
  assert.match(String(at), /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  assert.deepEqual(headers.odd, Buffer.from([0xff]));
  assert.deepEqual(
    Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, text(value)])),
    {
      partner_id: 'acme',
      odd: Buffer.from([0xff]).toString(),
      'dead-letter.reason': 'not_json',
      'dead-letter.detail': 'the value is not JSON',
      'dead-letter.topic': 'payments.accepted.v1',
      'dead-letter.partition': '7',
      'dead-letter.offset': '12345',
    },
  );
});

test('a record without key or value becomes a dead letter without key or value', async (t) => {
  const [letter] = await setAside(t, { ...aRecord, key: null, value: null });
  assert.deepEqual([letter?.key, letter?.value], [null, null]);
});

test('headers that the record had under our names, and repeated ones, are kept', async (t) => {
  const repeated = [Buffer.from('a'), Buffer.from('b')];
  const headers = { 'dead-letter.reason': Buffer.from('older'), repeated };
  const [letter] = await setAside(t, { ...aRecord, headers });
  assert.equal(text(letter?.headers['original.dead-letter.reason']), 'older');
  assert.equal(text(letter?.headers['dead-letter.reason']), 'not_json');
  assert.deepEqual(letter?.headers['repeated'], repeated);
});
