import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestTopic, eventually, testNamespace } from '@triplock/testing';
import { Kafka, logLevel, type KafkaMessage } from 'kafkajs';
import { runConsumer, type MemberOptions } from '../kafka/consumer.ts';
import { kafkaDriverNames } from '../kafka/brokers.ts';
import type { KafkaDriverName, OutgoingRecord, ReceivedRecord } from '../kafka/driver.ts';
import { openTopicOffsets } from '../kafka/offsets.ts';
import { connectProducer } from '../kafka/producer.ts';
import type { RecordBatch } from '../kafka/record-batches.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

/** A test that runs by one driver. */
export type DriverTest = TestContext & { driver: KafkaDriverName };

/** A promise of every driver: a test for each. */
export function testEveryDriver(promise: string, prove: (t: DriverTest) => Promise<void>): void {
  for (const driver of kafkaDriverNames) {
    test(`${promise} (${driver})`, (t) => prove(Object.assign(t, { driver })));
  }
}

/** A topic, a group, and what its consumers saw. */
export async function aGroup(t: DriverTest, partitions = 1) {
  const { brokers, topic } = await createTestTopic(t, { partitions });
  const { driver } = t;
  const connection = { brokers, clientId: 'test', logger, topic, driver };
  const groupId = testNamespace('group');
  const producer = await connectProducer({ ...connection, sendLimitMs: 5_000 });
  const offsets = openTopicOffsets({ ...connection, groupId });
  t.after(() => Promise.all([producer.close(), offsets.close()]));

  const seen: ReceivedRecord[] = [];
  const consume = (wish: Partial<MemberOptions> = {}) => {
    const handle = async (batch: RecordBatch) => void seen.push(...batch.records);
    const consumer = runConsumer({ ...connection, groupId, handle, ...wish });
    t.after(() => consumer.close());
    return consumer;
  };
  const append = (...messages: OutgoingRecord[]) => producer.send(messages);
  const allCommitted = () =>
    eventually(async () => {
      assert.deepEqual(await offsets.committed(), await offsets.end());
      return true;
    });
  return { ...connection, groupId, offsets, seen, consume, append, allCommitted };
}

/** Messages whose value is their partition and number. */
export const numbered = (count: number, partition: number): OutgoingRecord[] =>
  Array.from({ length: count }, (_, at) => ({ value: `${partition}/${at}`, partition }));

/** A record as any other client sees it. */
export type ReadRecord = KafkaMessage & { partition: number };

/** Everything in a topic at the time of the call, in order within each partition. */
export async function readTopic(connection: {
  brokers: string[];
  topic: string;
}): Promise<ReadRecord[]> {
  const { brokers, topic } = connection;
  const kafka = new Kafka({ brokers, clientId: 'reader', logLevel: logLevel.NOTHING });
  const missing = new Map<number, bigint>();
  const admin = kafka.admin();
  await admin.connect();
  try {
    for (const { partition, offset } of await admin.fetchTopicOffsets(topic)) {
      if (offset !== '0') missing.set(partition, BigInt(offset));
    }
  } finally {
    // One that stayed connected would keep a failed test's process from ending.
    await admin.disconnect();
  }
  if (missing.size === 0) return [];

  const records: ReadRecord[] = [];
  const consumer = kafka.consumer({ groupId: `reader-${randomBytes(8).toString('hex')}` });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await new Promise<void>((resolve, reject) => {
    consumer.on('consumer.crash', (event) => reject(event.payload.error));
    const eachMessage = async (read: { partition: number; message: KafkaMessage }) => {
      records.push({ ...read.message, partition: read.partition });
      if (BigInt(read.message.offset) + 1n >= (missing.get(read.partition) ?? 0n)) {
        missing.delete(read.partition);
      }
      if (missing.size === 0) resolve();
    };
    consumer.run({ autoCommit: false, eachMessage }).catch(reject);
  });
  await consumer.disconnect();
  return records;
}
