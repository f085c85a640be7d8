import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { TestContext } from 'node:test';
import { seedPartner } from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import {
  createTestDatabase,
  createTestKeyspace,
  createTestTopic,
  eventually,
  freePort,
  testNamespace,
} from '@triplock/testing';

const main = fileURLToPath(new URL('main.ts', import.meta.url));

/** Settings that work, over stores of one test's own, and a partner's API key. */
export async function gatewaySettings(t: TestContext) {
  const [keys, database, place] = await Promise.all([
    createTestKeyspace(t),
    createTestDatabase(t),
    createTestTopic(t, { partitions: 2 }),
  ]);
  const apiKey = testNamespace('key');
  await seedPartner(database.open('triplock_partners'), {
    id: 'acme' as PartnerId,
    apiKey,
    webhookUrl: 'http://127.0.0.1:9/',
    webhookSecret: `whsec_${Buffer.alloc(32, 1).toString('base64')}`,
  });
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
  return { settings, apiKey };
}

/** The gateway as a process of its own, killed after the test. */
export type GatewayProcess = {
  post(body: object, headers?: Record<string, string>): Promise<Response>;
  get(path: string, headers?: Record<string, string>): Promise<Response>;
  admin(path: string, method?: string): Promise<Response>;
  /** Resolves once every dependency answers. */
  ready(): Promise<void>;
  terminate(): void;
  /** The exit code and everything that was written. */
  ended: Promise<{ exitCode: number | null; output: string }>;
};

/** Starts the gateway with nothing but these settings in its environment. */
export function startGateway(
  t: TestContext,
  { settings, apiKey }: { settings: Readonly<Record<string, string>>; apiKey: string },
): GatewayProcess {
  const child = spawn(process.execPath, [main], {
    env: settings,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const written = Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  const ended = written.then(([out, err]) => ({ exitCode: child.exitCode, output: out + err }));
  t.after(() => child.kill('SIGKILL'));

  const http = `http://127.0.0.1:${settings['HTTP_PORT']}`;
  const admin = (path: string, method = 'GET') =>
    fetch(`http://127.0.0.1:${settings['ADMIN_PORT']}${path}`, { method });
  const authorization = `Bearer ${apiKey}`;
  return {
    post: (body, headers = {}) =>
      fetch(`${http}/v1/payments`, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      }),
    get: (path, headers = {}) =>
      fetch(`${http}${path}`, { headers: { authorization, ...headers } }),
    admin,
    ready: async () => void (await eventually(async () => (await admin('/readyz')).ok)),
    terminate: () => void child.kill('SIGTERM'),
    ended,
  };
}

/** Forwards a port to a part that is there, so that the part seems to come when this is called. */
export async function forwardPort(t: TestContext, from: number, to: string): Promise<void> {
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
  t.after(() => {
    server.close();
    server.unref();
  });
}
