import type { IHeaders } from 'kafkajs';
import { fired } from '../broken-promise.ts';
import type { System } from '../system.ts';
import type { Accepted } from './send.ts';

/**
 * Appends a payment's record once more, to the partition after its own, as a gateway may whose
 * first append got no answer and that knows of more partitions by now.
 */
export async function copyRecord(
  { kafka, names, accepted }: System,
  { id, sentAt }: Accepted,
): Promise<void> {
  const topic = names.acceptedTopic;
  const { partition, records } = await accepted.ofKey(id, sentAt);
  const [record] = records;
  fired('there is no record to copy', record !== undefined);
  const { key, value } = record;
  const headers = record.headers as IHeaders;
  const producer = kafka.producer({ allowAutoTopicCreation: false });
  const admin = kafka.admin();
  await Promise.all([producer.connect(), admin.connect()]);
  try {
    const partitions = (await admin.fetchTopicOffsets(topic)).length;
    const another = (partition + 1) % partitions;
    const messages = [{ key, value, headers, partition: another }];
    await producer.send({ topic, acks: -1, messages });
  } finally {
    await Promise.all([producer.disconnect(), admin.disconnect()]);
  }
}
