import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test, type TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestTopic, eventually, growTestTopic } from '@triplock/testing';
import kafkajs from 'kafkajs';
import { aGroup, numbered, testEveryDriver } from '../test/topic.ts';
import { kafkaDriverNames, kafkaOf, missingForKafka, openInquiry } from './brokers.ts';
import { restIdleQueues } from './kafkajs/client.ts';
import { connectProducer } from './producer.ts';
import type { RecordBatch } from './record-batches.ts';
import { readStretches } from './topic-reader.ts';

restIdleQueues();

type Queue = {
  throttleCheckTimeoutId: unknown;
  checkPendingRequests(): void;
  maybeThrottle(ms: number): void;
  push(request: object): void;
  destroy(): void;
};
type QueueClass = new (options: object) => Queue;

const require = createRequire(import.meta.url);
const RequestQueue = require('kafkajs/src/network/requestQueue') as QueueClass;

function aQueue(): Queue {
  return new RequestQueue({
    maxInFlightRequests: 1,
    requestTimeout: 1_000,
    enforceRequestTimeout: false,
    clientId: 'test',
    broker: 'none',
    logger: { debug: () => undefined, error: () => undefined },
    isConnected: () => true,
  });
}

test('a queue without a request sets no timer', (t) => {
  const queue = aQueue();
  t.after(() => queue.destroy());
  queue.checkPendingRequests();
  assert.equal(queue.throttleCheckTimeoutId, null);
});

test('a request that a broker throttled is sent when it may, and then there is rest', async (t) => {
  const queue = aQueue();
  t.after(() => queue.destroy());
  const sent: number[] = [];
  // Before it: what this process waits for between the two is no shorter throttle.
  const startedAt = Date.now();
  queue.maybeThrottle(20);
  queue.push({
    entry: { correlationId: 1, apiName: 'Metadata' },
    expectResponse: true,
    sendRequest: () => sent.push(Date.now() - startedAt),
  });
  assert.deepEqual(sent, []);
  assert.notEqual(queue.throttleCheckTimeoutId, null);
  await eventually(async () => sent.length === 1);
  assert.ok(sent[0]! >= 19, `sent after ${sent[0]} ms`);
  assert.equal(queue.throttleCheckTimeoutId, null);
});

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

async function openTestInquiry(t: TestContext) {
  const connection = await createTestTopic(t);
  const inquiry = openInquiry({ ...connection, clientId: 'test', logger });
  t.after(() => inquiry.close());
  return { inquiry, topic: connection.topic };
}

/** What kafkajs throws for the error code of a broker's answer. */
function refusal(message: string, code: number, retriable: boolean): Error {
  return new kafkajs.KafkaJSProtocolError(Object.assign(new Error(message), { code, retriable }));
}
const coordinatorMoved = refusal('This is not the correct coordinator for this group', 16, true);
const forbidden = refusal('Not authorized to access group', 30, false);

test('a broker that cannot answer yet is asked again', async (t) => {
  const { inquiry, topic } = await openTestInquiry(t);
  let refusals = 0;
  const answer = await inquiry.ask(async (admin) => {
    if (refusals < 2) {
      refusals += 1;
      throw coordinatorMoved;
    }
    return admin.bounds(topic);
  });
  assert.equal(refusals, 2);
  assert.equal(answer.get(0)?.end, 0n);
});

test('a broker that never can answer is its own error before the time is over', async (t) => {
  const { inquiry, topic } = await openTestInquiry(t);
  const never = inquiry.ask(() => Promise.reject(coordinatorMoved));
  await assert.rejects(never, coordinatorMoved);
  await inquiry.ping(topic);
});

test('what a broker refuses for good is asked once', async (t) => {
  const { inquiry } = await openTestInquiry(t);
  let asked = 0;
  const refused = inquiry.ask(() => {
    asked += 1;
    return Promise.reject(forbidden);
  });
  await assert.rejects(refused, forbidden);
  assert.equal(asked, 1);
});

test('who has a user has a password, and shows it only where the settings give both', () => {
  assert.deepEqual(missingForKafka({}), []);
  assert.deepEqual(missingForKafka({ KAFKA_USERNAME: 'a', KAFKA_PASSWORD_FILE: '/b' }), []);
  assert.match(missingForKafka({ KAFKA_USERNAME: 'a' }).join(), /^KAFKA_PASSWORD is missing/);
  assert.match(missingForKafka({ KAFKA_PASSWORD: 'b' }).join(), /^KAFKA_USERNAME is missing/);
  const settings = {
    KAFKA_BROKERS: ['kafka:9093'],
    KAFKA_CLIENT: 'kafkajs',
    KAFKA_TLS: 'on',
    KAFKA_SASL: 'plain',
    KAFKA_USERNAME: undefined,
    KAFKA_PASSWORD: undefined,
  } as const;
  const as = { clientId: 'test', logger };
  const common = { brokers: ['kafka:9093'], driver: 'kafkajs', tls: 'on', ...as };
  assert.deepEqual(kafkaOf(settings, as), common);
  const user = { username: 'a', password: 'b' };
  assert.deepEqual(kafkaOf({ ...settings, KAFKA_USERNAME: 'a', KAFKA_PASSWORD: 'b' }, as), {
    ...common,
    login: { mechanism: 'plain', ...user },
  });
});

test('members by every driver share one group, and each takes over from the others', async (t) => {
  const partitions = kafkaDriverNames.length * 2;
  const group = await aGroup(Object.assign(t, { driver: kafkaDriverNames[0] }), partitions);
  const appendToAll = () =>
    group.append(...Array.from({ length: partitions }, (_, each) => numbered(1, each)).flat());
  const members = kafkaDriverNames.map((driver) => {
    const handled = new Set<number>();
    const handle = async ({ partition }: RecordBatch) => void handled.add(partition);
    const join = () => group.consume({ driver, handle });
    return { handled, join, consumer: join() };
  });
  await eventually(async () => {
    await appendToAll();
    await group.allCommitted();
    return members.every(({ handled }) => handled.size > 0);
  });
  for (const leaving of members) {
    await leaving.consumer.close();
    for (const { handled } of members) handled.clear();
    await appendToAll();
    await group.allCommitted();
    const taken = members.filter((each) => each !== leaving).flatMap((each) => [...each.handled]);
    assert.equal(new Set(taken).size, partitions);
    leaving.consumer = leaving.join();
  }
});

test('partitions that a topic gets later are read, though nobody joins or leaves', async (t) => {
  const group = await aGroup(Object.assign(t, { driver: 'platformatic' as const }));
  const { seen, consume, append, allCommitted } = group;
  consume();
  await append(...numbered(1, 0));
  await allCommitted();
  await growTestTopic(group, 3);
  const producer = await connectProducer({ ...group, sendLimitMs: 5_000 });
  t.after(() => producer.close());
  await producer.send([...numbered(1, 1), ...numbered(1, 2)]);
  await eventually(async () => new Set(seen.map(({ partition }) => partition)).size === 3);
  await allCommitted();
});

testEveryDriver('of a producer that aborts again and again nothing aborted is read', async (t) => {
  const { brokers, topic, seen, consume, allCommitted } = await aGroup(t);
  const kafka = new kafkajs.Kafka({
    brokers,
    clientId: 'test',
    logLevel: kafkajs.logLevel.NOTHING,
  });
  const transactionalId = topic;
  const producer = kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  t.after(() => producer.disconnect());
  const ends = ['abort', 'commit', 'abort', 'abort', 'commit'] as const;
  for (const [at, end] of ends.entries()) {
    const transaction = await producer.transaction();
    await transaction.send({ topic, messages: [{ value: `${end} ${at}` }] });
    await transaction[end]();
  }
  consume();
  await eventually(async () => seen.length >= 2);
  await allCommitted();
  assert.deepEqual(
    seen.map(({ value }) => String(value)),
    ['commit 1', 'commit 4'],
  );
});

testEveryDriver('what is larger than one fetch takes comes in order, whole and once', async (t) => {
  const { seen, consume, append, allCommitted } = await aGroup(t);
  const value = 'x'.repeat(300_000);
  for (let at = 0; at < 12; at += 1) await append({ key: `${at}`, value, partition: 0 });
  consume();
  await allCommitted();
  assert.deepEqual(
    seen.map(({ key, value: read }) => [String(key), read?.length]),
    Array.from({ length: 12 }, (_, at) => [`${at}`, value.length]),
  );
});

testEveryDriver('a stretch of which enough was taken is read no further', async (t) => {
  const { brokers, topic, append } = await aGroup(t);
  const value = 'x'.repeat(300_000);
  for (let at = 0; at < 12; at += 1) await append({ key: `${at}`, value, partition: 0 });
  const taken: bigint[] = [];
  const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
  const options = { brokers, topic, clientId: 'test', logger, driver: t.driver };
  await readStretches(options, {
    stretches: [{ partition: 0, from: 2n, to: 12n }],
    withinMs: 30_000,
    take: (records) => void taken.push(...records.map(({ offset }) => offset)),
    isEnough: () => taken.length > 0,
  });
  assert.equal(taken[0], 2n);
  assert.equal(taken.length < 10, true, `${taken.length} of 10`);
});
