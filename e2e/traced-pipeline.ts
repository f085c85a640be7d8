import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { seedPartner } from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import {
  createTestDatabase,
  createTestKeyspace,
  createTestStripe,
  createTestSubscription,
  createTestTopic,
  freePort,
  ofDeadLetters,
  startService,
  testNamespace,
  type TestService,
} from '@triplock/testing';

/** One of each service that a payment passes, and no others. */
export type TracedPipeline = {
  gateway: string;
  /** Asks all to finish, and so to send what they have not sent. */
  finish(): Promise<void>;
};

/** Who pays, and where webhooks go. */
export type Payer = { apiKey: string; webhookUrl: string; webhookSecret: string };

type Settings = Readonly<Record<string, string>>;

// The launcher's own: with it four services start in half the time.
const compiled = fileURLToPath(new URL('../.triplock/parts/compiled', import.meta.url));

/** Starts the services on stores of one test's own, with their spans going to `traces`. */
export async function startTraced(
  test: TestContext,
  { traces, payer }: { traces: string; payer: Payer },
): Promise<TracedPipeline> {
  const [keys, database, accepted, letters, events, stripe] = await Promise.all([
    createTestKeyspace(test),
    createTestDatabase(test),
    createTestTopic(test),
    createTestTopic(test, ofDeadLetters),
    createTestSubscription(test),
    createTestStripe(test),
  ]);
  await seedPartner(database.open(), { id: 'acme' as PartnerId, ...payer });

  const kafka = {
    KAFKA_BROKERS: accepted.brokers.join(','),
    ACCEPTED_TOPIC: accepted.topic,
    LEDGER_GROUP: testNamespace('worker'),
  };
  const pubsub = {
    PUBSUB_PROJECT_ID: events.projectId,
    PUBSUB_EMULATOR_HOST: events.emulatorHost,
  };
  const start = async (name: string, settings: Settings): Promise<TestService> =>
    startService(test, new URL(`../services/${name}/main.ts`, import.meta.url), {
      NODE_COMPILE_CACHE: compiled,
      TRIPLOCK_MODE: 'test',
      ADMIN_PORT: String(await freePort()),
      OTEL_EXPORTER_OTLP_ENDPOINT: traces,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      // So that a busy machine has little left to send in the 2 s of a shutdown.
      OTEL_BSP_SCHEDULE_DELAY: '100',
      ...settings,
    });
  const gatewayPort = String(await freePort());
  const services = await Promise.all([
    start('ingest-gateway', {
      ...kafka,
      HTTP_PORT: gatewayPort,
      REDIS_URL: keys.url,
      CLAIM_NAMESPACE: keys.namespace,
      DATABASE_URL: database.url('triplock_gateway'),
    }),
    start('ledger-worker', {
      ...kafka,
      DEAD_LETTER_TOPIC: letters.topic,
      DATABASE_URL: database.url('triplock_ledger'),
      STRIPE_API_KEY: stripe.apiKey,
      STRIPE_API_URL: stripe.url,
    }),
    start('outbox-dispatcher', {
      ...pubsub,
      EVENTS_TOPIC: events.topic,
      DATABASE_URL: database.url('triplock_ledger'),
    }),
    start('partner-notifier', {
      ...pubsub,
      EVENTS_SUBSCRIPTION: events.subscription,
      DATABASE_URL: database.url('triplock_notifier'),
      WEBHOOK_RETRY_FIRST_MS: '20',
    }),
  ]);
  await Promise.all(services.map((service) => service.ready()));
  return {
    gateway: `http://127.0.0.1:${gatewayPort}`,
    finish: async () => void (await Promise.all(services.map((service) => service.terminate()))),
  };
}
