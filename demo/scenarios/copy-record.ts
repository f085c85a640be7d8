import { fired } from '../broken-promise.ts';
import type { System } from '../system.ts';
import { readMessages } from '../trace/read-records.ts';
import type { Accepted } from './send.ts';

/** Appends a payment's record once more, as a gateway does whose first append got no answer. */
export async function copyRecord(
  { kafka, names }: System,
  { id, sentAt }: Accepted,
): Promise<void> {
  const topic = names.acceptedTopic;
  const { partition, messages } = await readMessages(kafka, { topic, key: id, since: sentAt });
  const [record] = messages;
  fired('there is no record to copy', record !== undefined);
  const { key, value, headers = {} } = record;
  const producer = kafka.producer({ allowAutoTopicCreation: false });
  await producer.connect();
  try {
    await producer.send({ topic, acks: -1, messages: [{ key, value, headers, partition }] });
  } finally {
    await producer.disconnect();
  }
}
