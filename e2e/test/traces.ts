import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parseWebhookKeys, seedPartner } from '@triplock/partners';
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
  testWebhookKeys,
} from '@triplock/testing';

/** One of each service that a payment passes, and no others. */
type TracedPipeline = {
  gateway: string;
  /** Asks all to finish, and so to send what they have not sent. */
  finish(): Promise<void>;
};

/** Who pays, and where webhooks go. */
type Payer = { apiKey: string; webhookUrl: string; webhookSecret: string };

type Settings = Readonly<Record<string, string>>;

// The launcher's own: with it four services start in half the time.
const webhookKeys = parseWebhookKeys(testWebhookKeys);
const compiled = fileURLToPath(new URL('../../.triplock/compiled', import.meta.url));

/** Starts the services on stores of one test's own, with their spans going to `traces`. */
export async function startTraced(
  test: TestContext,
  { traces, payer }: { traces: string; payer: Payer },
): Promise<TracedPipeline> {
  const [keys, database, accepted, letters, told, events, stripe] = await Promise.all([
    createTestKeyspace(test),
    createTestDatabase(test),
    createTestTopic(test),
    createTestTopic(test, ofDeadLetters),
    createTestTopic(test),
    createTestSubscription(test),
    createTestStripe(test),
  ]);
  await seedPartner(database.open(), { id: 'acme' as PartnerId, ...payer }, webhookKeys);

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
    startService(test, new URL(`../../services/${name}/main.ts`, import.meta.url), {
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
      KAFKA_BROKERS: kafka.KAFKA_BROKERS,
      TOLD_TOPIC: told.topic,
      EVENTS_TOPIC: events.topic,
      DATABASE_URL: database.url('triplock_dispatcher'),
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

/** A span as a test reads it. Times are nanoseconds since 1970. */
export type StoredSpan = {
  service: string;
  traceId: string;
  spanId: string;
  parentSpanId: string | undefined;
  name: string;
  startNs: bigint;
  endNs: bigint;
  failed: boolean;
  attributes: Readonly<Record<string, string | number>>;
  /** Trace ids that it links to. */
  links: readonly string[];
};

/** What collectors speak on port 4318: OTLP over HTTP, here as JSON. */
export type TraceStore = {
  url: string;
  /** Everything that came, as it came. */
  bodies: string[];
  spans(): StoredSpan[];
  /** One trace in the form in which it came, which viewers of traces open as a file. */
  traceAsOtlp(traceId: string): OtlpTraces;
  close(): Promise<void>;
};

type OtlpValue = { stringValue?: string; intValue?: number | string; doubleValue?: number };
type OtlpAttribute = { key: string; value: OtlpValue };
type OtlpSpan = {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: OtlpAttribute[];
  links?: { traceId: string }[];
  status?: { code?: number };
};
type OtlpTraces = {
  resourceSpans: {
    resource: { attributes: OtlpAttribute[] };
    scopeSpans: { scope: { name: string }; spans: OtlpSpan[] }[];
  }[];
};

const failedCode = 2;

/** Opens one on a port of its own. */
export async function openTraceStore(): Promise<TraceStore> {
  const bodies: string[] = [];
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      if (request.url === '/v1/traces') bodies.push(body);
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const resources = () => bodies.flatMap((body) => (JSON.parse(body) as OtlpTraces).resourceSpans);
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    bodies,
    spans: () =>
      resources().flatMap(({ resource, scopeSpans }) => {
        const service = String(valuesOf(resource.attributes)['service.name']);
        return scopeSpans.flatMap(({ spans }) => spans.map((span) => stored(service, span)));
      }),
    traceAsOtlp: (traceId) => ({
      resourceSpans: resources().flatMap(({ resource, scopeSpans }) => {
        const some = scopeSpans
          .map(({ scope, spans }) => ({ scope, spans: spans.filter(isOf(traceId)) }))
          .filter(({ spans }) => spans.length > 0);
        return some.length === 0 ? [] : [{ resource, scopeSpans: some }];
      }),
    }),
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

const isOf = (traceId: string) => (span: OtlpSpan) => span.traceId === traceId;

function stored(service: string, span: OtlpSpan): StoredSpan {
  return {
    service,
    traceId: span.traceId,
    spanId: span.spanId,
    parentSpanId: span.parentSpanId || undefined,
    name: span.name,
    startNs: BigInt(span.startTimeUnixNano),
    endNs: BigInt(span.endTimeUnixNano),
    failed: span.status?.code === failedCode,
    attributes: valuesOf(span.attributes),
    links: (span.links ?? []).map(({ traceId }) => traceId),
  };
}

function valuesOf(attributes: readonly OtlpAttribute[]): Record<string, string | number> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [
      key,
      value.stringValue ?? Number(value.intValue ?? value.doubleValue),
    ]),
  );
}
