import { randomBytes } from 'node:crypto';
import { Kafka, logLevel, type KafkaMessage } from 'kafkajs';

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
