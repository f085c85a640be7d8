import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { parseWebhookKeys, seedPartner } from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import { createLogger } from '@triplock/runtime';
import {
  createTestDatabase,
  createTestKeyspace,
  createTestRedis,
  createTestTopic,
  freePort,
  startService,
  testNamespace,
  testWebhookKeys,
  type Cleanup,
} from '@triplock/testing';
import { openTopicOffsets } from '@triplock/transport';

const main = new URL('../main.ts', import.meta.url);

/** Settings that work, over stores of one test's own, and the API keys of acme and globex. */
export async function gatewaySettings(t: Cleanup) {
  const [keys, database, place] = await Promise.all([
    createTestKeyspace(t),
    createTestDatabase(t),
    createTestTopic(t, { partitions: 2 }),
  ]);
  const [apiKey, otherApiKey] = [testNamespace('key'), testNamespace('key')];
  const webhookKeys = parseWebhookKeys(testWebhookKeys);
  const partners = database.open('triplock_partners');
  for (const [id, key] of [
    ['acme', apiKey],
    ['globex', otherApiKey],
  ] as const) {
    const seed = {
      id: id as PartnerId,
      apiKey: key,
      webhookUrl: 'http://127.0.0.1:9/',
      webhookSecret: `whsec_${Buffer.alloc(32, 1).toString('base64')}`,
    };
    await seedPartner(partners, seed, webhookKeys);
  }
  const settings = {
    TRIPLOCK_MODE: 'test',
    HTTP_PORT: `${await freePort()}`,
    ADMIN_PORT: `${await freePort()}`,
    REDIS_URL: keys.url,
    CLAIM_NAMESPACE: keys.namespace,
    KAFKA_BROKERS: place.brokers.join(','),
    ACCEPTED_TOPIC: place.topic,
    LEDGER_GROUP: testNamespace('ledger-worker'),
    DATABASE_URL: database.url('triplock_gateway'),
    CLAIMS_DATABASE_URL: database.url('triplock_claims'),
  };
  return { settings, apiKey, otherApiKey, database };
}

/** The gateway as a process of its own, killed after the test. */
export type GatewayProcess = {
  /** Posts a payment, or something else to a path of its own. */
  post(body: object, headers?: Record<string, string>, path?: string): Promise<Response>;
  get(path: string, headers?: Record<string, string>): Promise<Response>;
  admin(path: string, method?: 'GET' | 'POST'): Promise<Response>;
  /** Resolves once every dependency answers. */
  ready(): Promise<void>;
  terminate(): void;
  /** The exit code and everything that was written. */
  ended: Promise<{ exitCode: number | null; output: string }>;
};

/** Starts the gateway with nothing but these settings in its environment. */
export function startGateway(
  t: Cleanup,
  { settings, apiKey }: { settings: Readonly<Record<string, string>>; apiKey: string },
): GatewayProcess {
  const { child, ended, admin, ready } = startService(t, main, settings);
  const http = `http://127.0.0.1:${settings['HTTP_PORT']}`;
  const authorization = `Bearer ${apiKey}`;
  return {
    post: (body, headers = {}, path = '/v1/payments') =>
      fetch(`${http}${path}`, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      }),
    get: (path, headers = {}) =>
      fetch(`${http}${path}`, { headers: { authorization, ...headers } }),
    admin,
    ready,
    terminate: () => void child.kill('SIGTERM'),
    ended: ended.then(({ exitCode, stdout, stderr }) => ({ exitCode, output: stdout + stderr })),
  };
}

/** Several gateways, each a process with settings of its own, on one claim store and one topic. */
export async function severalGateways(t: Cleanup) {
  const [given, redis] = await Promise.all([gatewaySettings(t), createTestRedis(t)]);
  const offsets = openTopicOffsets({
    brokers: given.settings.KAFKA_BROKERS.split(','),
    topic: given.settings.ACCEPTED_TOPIC,
    groupId: given.settings.LEDGER_GROUP,
    clientId: 'test',
    logger: createLogger({ service: 'test', instance: 'test', level: 'silent' }),
  });
  t.after(() => offsets.close());
  const start = async (more: Readonly<Record<string, string>> = {}) => {
    const ports = { HTTP_PORT: `${await freePort()}`, ADMIN_PORT: `${await freePort()}` };
    const settings = { ...given.settings, ...ports, REDIS_URL: redis.url, ...more };
    const gateway = startGateway(t, { ...given, settings });
    await gateway.ready();
    return gateway;
  };
  const records = async () => [...(await offsets.end()).values()].reduce((sum, each) => sum + each);
  /** Ends the leases of all claims that are in flight, as half a minute does. */
  const endLeases = async () => {
    for (const key of (await redis.command('KEYS', '*:claim:*')) as string[]) {
      await redis.command('HSET', key, 'l', '0');
    }
  };
  return { start, records, endLeases };
}

/** Forwards a port to a part that is there, so that the part seems to come when this is called. */
export async function forwardPort(t: Cleanup, from: number, to: string): Promise<void> {
  const { hostname, port } = new URL(to);
  const server = createServer((inbound) => {
    const outbound = connect({ host: hostname, port: Number(port) });
    inbound.pipe(outbound).pipe(inbound);
    for (const socket of [inbound, outbound]) {
      socket.on('error', () => (inbound.destroy(), outbound.destroy()));
    }
  });
  server.listen(from, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
    server.close();
    server.unref();
  });
}
