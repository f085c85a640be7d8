import { Kafka, logLevel, type Admin } from 'kafkajs';

/** Has Kafka administered for a moment. `brokers`: `host:port`, several separated by commas. */
export async function withKafkaAdmin<Result>(
  brokers: string,
  work: (admin: Admin) => Promise<Result>,
): Promise<Result> {
  const admin = new Kafka({
    clientId: 'launcher',
    brokers: brokers.split(','),
    logLevel: logLevel.ERROR,
  }).admin();
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.disconnect();
  }
}
