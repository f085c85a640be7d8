import { testEndpoints } from '@triplock/testing';

/**
 * Kafka and Pub/Sub of the test run, as variables that give them to the launcher: a test about the
 * launcher starts Redis and PostgreSQL, which takes a second, and spares itself two Java processes.
 */
export async function givenBrokers(): Promise<Record<string, string>> {
  const { kafka, pubsub } = await testEndpoints();
  return { KAFKA_BROKERS: kafka, PUBSUB_EMULATOR_HOST: pubsub };
}
