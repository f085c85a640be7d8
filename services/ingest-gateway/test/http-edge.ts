import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { Problem, validatePaymentRequest, readIdempotencyKey } from '@triplock/contracts';
import type { JsonValue, PartnerId } from '@triplock/payments';
import { createLogger } from '@triplock/runtime';
import type { FastifyInstance } from 'fastify';
import type { Rate } from '../http/admission.ts';
import { createHttpServer, type HttpLimits } from '../http/server.ts';
import { testAdmission } from './gateway.ts';
import { connectRaw, type RawAnswer, type RawConnection } from './raw-connection.ts';

/** A payment that got through the edge. */
export type Handled = { partnerId: string; key: string; body: unknown };

/** The HTTP edge on a port of its own, with a route that only notes what gets through. */
export type Edge = {
  port: number;
  /** What got through; a refused request must leave no trace here. */
  handled: Handled[];
  connect(): RawConnection;
  /** Sends one raw request on a connection of its own. */
  exchange(request: string | Buffer): Promise<RawAnswer>;
  close(): Promise<void>;
};

export const apiKey = 'demo_acme-1.~+/==';

type EdgeOptions = {
  limits?: Partial<HttpLimits>;
  partnerRate?: Rate;
  failureRate?: Rate;
  trustedProxies?: readonly string[];
  beforeAnswer?: () => Promise<void>;
  /** Routes to add to those that are always there. */
  routes?: (app: FastifyInstance) => void;
};

/** Starts the edge and closes it after the test. */
export async function startEdge(test: TestContext, options: EdgeOptions = {}): Promise<Edge> {
  const handled: Handled[] = [];
  const app = await createHttpServer({
    logger: createLogger({ service: 'ingest-gateway', instance: 'test', level: 'silent' }),
    admission: testAdmission(
      async (key) =>
        key === apiKey
          ? { outcome: 'authenticated', partnerId: 'acme' as PartnerId }
          : { outcome: 'refused' },
      options,
    ),
    trustedProxies: options.trustedProxies,
    routes(server) {
      options.routes?.(server);
      server.post('/v1/payments', async (request, reply) => {
        const key = readIdempotencyKey(request.raw.rawHeaders);
        const valid = validatePaymentRequest(request.body as JsonValue | undefined);
        if (valid.outcome === 'invalid') throw new Problem('invalid_request', 'no', valid);
        handled.push({ partnerId: request.partnerId, key, body: valid.body });
        await options.beforeAnswer?.();
        return reply.code(202).type('application/json').send('{"status":"pending"}');
      });
      server.get('/v1/payments/:id', async (_request, reply) =>
        reply.type('application/json').send('{"object":"payment"}'),
      );
      server.get('/bug', () => {
        throw new Error('connect ECONNREFUSED 10.1.2.3:6379');
      });
    },
    limits: options.limits,
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const open = new Set<RawConnection>();
  const connect = () => {
    const connection = connectRaw(port);
    open.add(connection);
    return connection;
  };
  const close = async () => app.close();
  test.after(async () => {
    for (const connection of open) connection.destroy();
    await close();
  });
  const exchange = (request: string | Buffer) => {
    const connection = connect();
    connection.send(request);
    return connection.answer();
  };
  return { port, handled, connect, exchange, close };
}

/** Writes a request down; a header of `undefined` is left out, several lines are a list. */
export function httpRequest(
  line: string,
  headers: Record<string, string | string[] | undefined> = {},
  body: string | Buffer = '',
): Buffer {
  const all = {
    Host: 'localhost',
    Authorization: `Bearer ${apiKey}`,
    'Content-Length': body.length === 0 ? undefined : String(Buffer.byteLength(body)),
    ...headers,
  };
  const lines = Object.entries(all).flatMap(([name, value]) =>
    value === undefined ? [] : [value].flat().map((each) => `${name}: ${each}`),
  );
  const head = [`${line} HTTP/1.1`, ...lines, '', ''].join('\r\n');
  return Buffer.concat([Buffer.from(head, 'latin1'), Buffer.from(body as string)]);
}

/** A valid payment, with some headers or another body. */
export function paymentRequest(
  headers: Record<string, string | string[] | undefined> = {},
  body: string | Buffer = '{"amount":1250,"currency":"EUR"}',
): Buffer {
  const usual = { 'Content-Type': 'application/json', 'Idempotency-Key': 'order-1001' };
  return httpRequest('POST /v1/payments', { ...usual, ...headers }, body);
}
