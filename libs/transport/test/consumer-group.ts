import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestTopic, eventually, testNamespace } from '@triplock/testing';
import type { Message } from 'kafkajs';
import { runConsumer, type MemberOptions } from '../kafka/consumer.ts';
import { connectProducer } from '../kafka/producer.ts';
import type { ReceivedRecord, RecordBatch } from '../kafka/record-batches.ts';
import { openTopicOffsets } from '../kafka/offsets.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

/** A topic, a group, and what its consumers saw. */
export async function aGroup(t: TestContext, partitions = 1) {
  const { brokers, topic } = await createTestTopic(t, { partitions });
  const connection = { brokers, clientId: 'test', logger, topic };
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
  const append = (...messages: Message[]) => producer.send(messages);
  const allCommitted = () =>
    eventually(async () => {
      assert.deepEqual(await offsets.committed(), await offsets.end());
      return true;
    });
  return { brokers, topic, groupId, offsets, seen, consume, append, allCommitted };
}

/** Messages whose value is their partition and number. */
export const numbered = (count: number, partition: number): Message[] =>
  Array.from({ length: count }, (_, at) => ({ value: `${partition}/${at}`, partition }));
