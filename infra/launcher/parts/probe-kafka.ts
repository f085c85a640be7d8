import { Kafka, logLevel } from 'kafkajs';

// The plan's consumer group. Any group would do to ask the coordinator, but the answer is only
// about the partition of the offsets topic that this group lives in.
const group = 'ledger-worker';

/**
 * Asks for a group's offsets: a broker that listens may still answer that its group coordinator is
 * loading, and consumers would then wait for a retry.
 */
export async function probeKafka(brokers: string): Promise<void> {
  const admin = new Kafka({
    clientId: 'launcher',
    brokers: brokers.split(','),
    logLevel: logLevel.NOTHING,
    connectionTimeout: 2_000,
    requestTimeout: 2_000,
    retry: { retries: 0 },
  }).admin();
  try {
    await admin.connect();
    // kafkajs looks for the coordinator among the brokers that it has seen in metadata.
    await admin.listTopics();
    await admin.fetchOffsets({ groupId: group });
  } finally {
    await admin.disconnect();
  }
}
