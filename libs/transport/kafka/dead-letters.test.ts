import assert from 'node:assert/strict';
import { createLogger } from '@triplock/runtime';
import { appendInTransaction, createTestTopic, eventually, testPart } from '@triplock/testing';
import { Kafka, logLevel } from 'kafkajs';
import { openDeadLetters, redriveRecord } from './dead-letters.ts';
import type { OutgoingHeaders, ReceivedRecord } from './driver.ts';
import { connectProducer } from './producer.ts';
import { openBadNetwork } from '../test/bad-network.ts';
import { aGroup, readTopic, testEveryDriver as test, type DriverTest } from '../test/topic.ts';
import { openTopicReader } from './topic-reader.ts';

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

async function setAside(t: DriverTest, ...records: ReceivedRecord[]) {
  const connection = await createTestTopic(t);
  const deadLetters = openDeadLetters({
    ...connection,
    clientId: 'test',
    logger,
    driver: t.driver,
  });
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

test('while no producer can connect, dead letters are not ready, though the topic answers', async (t) => {
  const connection = await createTestTopic(t);
  let letsIn = true;
  const network = await openBadNetwork(connection.brokers[0]!, ({ client, broker, drop }) => {
    if (!letsIn) return drop();
    client.pipe(broker).pipe(client);
  });
  const by = { driver: t.driver, dial: network.dial };
  const deadLetters = openDeadLetters({ ...connection, clientId: 'test', logger, ...by });
  t.after(async () => {
    await deadLetters.close();
    await network.close();
  });
  await deadLetters.append(aRecord, refusal);
  await deadLetters.ping();
  letsIn = false;
  // More than this topic takes: the producer that meets it is thrown away.
  const tooLarge = { ...aRecord, value: Buffer.alloc(1_200_000) };
  await assert.rejects(deadLetters.append(tooLarge, refusal));
  await assert.rejects(deadLetters.ping(), /no producer is connected/);
  letsIn = true;
  await eventually(() => deadLetters.append(aRecord, refusal).then(() => true));
  await deadLetters.ping();
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

/** Headers as other clients may write them, with names that objects inherit and null values. */
const foreign: OutgoingHeaders = Object.fromEntries([
  ['gone', null],
  ['empty', ''],
  ['several', [null, 'a', null, '']],
  ['constructor', 'as any other'],
  ['__proto__', ['one', 'two']],
  ['dead-letter.null.gone', null],
]);

/** What a client that can read all of it finds. */
async function headersIn(t: DriverTest, connection: { brokers: string[]; topic: string }) {
  const reader = openTopicReader({
    ...connection,
    clientId: connection.topic,
    logger,
    driver: 'platformatic',
  });
  t.after(() => reader.close());
  return eventually(async () => {
    const [record] = await reader.newest();
    return record && { value: record.value, headers: record.headers };
  });
}

function written(headers: OutgoingHeaders) {
  const bytesOf = (value: string | Buffer | null) => (value === null ? null : Buffer.from(value));
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => {
      return [name, Array.isArray(value) ? value.map(bytesOf) : bytesOf(value!)];
    }),
  );
}

/** Sets the first record of a topic aside as a worker does, and reads on. */
async function setForeignAside(t: DriverTest, headers: OutgoingHeaders) {
  const accepted = await aGroup(t);
  const value = Buffer.from([0xff, 0x00]);
  const foreigner = await connectProducer({
    ...accepted,
    driver: 'platformatic',
    sendLimitMs: 5_000,
  });
  await foreigner.send([{ key: 'k', value, headers }, { value: 'behind it' }]);
  await foreigner.close();
  const dead = { ...(await createTestTopic(t)), clientId: 'test', logger, driver: t.driver };
  const deadLetters = openDeadLetters(dead);
  t.after(() => deadLetters.close());
  accepted.consume({
    handle: async ({ records }) => {
      for (const record of records) {
        if (record.value!.equals(value)) await deadLetters.append(record, refusal);
      }
    },
  });
  await accepted.allCommitted();
  const letter = await headersIn(t, dead);
  assert.deepEqual(letter.value, value);
  return { dead, headers: letter.headers };
}

const ours = /^dead-letter\.(?!null\.)/;

test('a record with null headers becomes a dead letter that says so, and the partition goes on', async (t) => {
  const { headers } = await setForeignAside(t, foreign);
  const kept = Object.entries(headers).filter(([name]) => !ours.test(name));
  const { gone, several, 'dead-letter.null.gone': alike, ...rest } = foreign;
  const asTheyWere = { ...rest, gone, several, 'original.dead-letter.null.gone': alike };
  const told = {
    ...rest,
    several: ['a', ''],
    'dead-letter.null.gone': '0',
    'dead-letter.null.several': '0,2',
    'dead-letter.null.original.dead-letter.null.gone': '0',
  };
  const expected = written(t.driver === 'platformatic' ? asTheyWere : told);
  assert.deepEqual(Object.fromEntries(kept), expected);
});

test('a dead letter that is redriven has its headers again, null where the library can write it', async (t) => {
  const { dead } = await setForeignAside(t, foreign);
  const again = await createTestTopic(t);
  const reader = openTopicReader({ ...dead, clientId: dead.topic });
  t.after(() => reader.close());
  const [letter] = await reader.newest();
  await redriveRecord({ ...dead, ...again }, letter!);
  const { headers } = await headersIn(t, again);
  const empty = { gone: '', several: ['', 'a', '', ''], 'dead-letter.null.gone': '' };
  const expected = t.driver === 'platformatic' ? foreign : { ...foreign, ...empty };
  assert.deepEqual(headers, written(expected));
});

async function openTopic(t: DriverTest) {
  const { brokers, topic } = await createTestTopic(t, { partitions: 3 });
  const kafka = new Kafka({ brokers, clientId: 'test', logLevel: logLevel.NOTHING });
  const send = async (keys: readonly string[]) => {
    const producer = kafka.producer();
    await producer.connect();
    await producer.send({ topic, messages: keys.map((key) => ({ key, value: `of ${key}` })) });
    await producer.disconnect();
  };
  const reader = openTopicReader({ brokers, clientId: topic, logger, topic, driver: t.driver });
  t.after(() => reader.close());
  return { kafka, topic, send, reader };
}

test('all records of one key are found, and no group is left on the broker', async (t) => {
  const { kafka, topic, send, reader } = await openTopic(t);
  const since = new Date();
  assert.deepEqual((await reader.ofKey('one', since)).records, []);
  await send(['one', 'two', 'three', 'one']);
  const { partition, records, complete } = await reader.ofKey('one', since);
  assert.equal(complete, true);
  assert.deepEqual(
    records.map(({ key, value }) => [String(key), String(value)]),
    [
      ['one', 'of one'],
      ['one', 'of one'],
    ],
  );
  const [first] = records;
  assert.equal(String((await reader.at(partition, first!.offset))?.value), 'of one');
  const admin = kafka.admin();
  await admin.connect();
  t.after(() => admin.disconnect());
  const { groups } = await admin.listGroups();
  assert.deepEqual(
    groups.filter(({ groupId }) => groupId.startsWith(topic)),
    [],
  );
});

test('a look ends where a transaction left its marker, and there is no record at its offset', async (t) => {
  const { topic, reader } = await openTopic(t);
  const place = { brokers: [await testPart('kafka')], topic };
  const message = { key: 'one', value: 'in a transaction', partition: 0 };
  await appendInTransaction(place, { message, end: 'commit' });
  assert.deepEqual(
    (await reader.newest()).map(({ key }) => String(key)),
    ['one'],
  );
  assert.equal(await reader.at(0, 1n), undefined);
});

test('the newest records come of all partitions, and an offset past the end has none', async (t) => {
  const { send, reader } = await openTopic(t);
  assert.deepEqual(await reader.newest(), []);
  await send(['one', 'two', 'three', 'four', 'five']);
  const keys = (await reader.newest()).map(({ key }) => String(key));
  assert.deepEqual(keys.sort(), ['five', 'four', 'one', 'three', 'two']);
  assert.equal(await reader.at(0, 99n), undefined);
  assert.equal(await reader.at(9, 0n), undefined);
});
