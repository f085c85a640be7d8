import { connect, type AddressInfo, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import {
  currentApiVersion,
  Problem,
  readIdempotencyKey,
  validatePaymentRequest,
} from '@triplock/contracts';
import type { JsonValue, PartnerId } from '@triplock/payments';
import { createLogger, type Logger, type Rate } from '@triplock/runtime';
import type { FastifyInstance } from 'fastify';
import { apiKeyOf, testAdmission } from './gateway.ts';
import { createHttpServer, type HttpLimits } from '../http/server.ts';

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
  publicRate?: Rate;
  trustedProxies?: readonly string[];
  logger?: Logger;
  beforeAnswer?: () => Promise<void>;
  /** Routes to add to those that are always there. */
  routes?: (app: FastifyInstance) => void;
};

/** Starts the edge and closes it after the test. */
export async function startEdge(test: TestContext, options: EdgeOptions = {}): Promise<Edge> {
  const handled: Handled[] = [];
  const app = await createHttpServer({
    logger:
      options.logger ??
      createLogger({ service: 'ingest-gateway', instance: 'test', level: 'silent' }),
    admission: testAdmission(
      async (key) =>
        key === apiKey
          ? {
              outcome: 'authenticated',
              partnerId: 'acme' as PartnerId,
              cardNumbersIn: [],
              scope: 'full',
              keyId: apiKeyOf('acme'),
              apiVersion: currentApiVersion,
              expiresAtMs: Infinity,
            }
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

/** An answer as it came off the wire; header names in lower case. */
export type RawAnswer = { status: number; headers: Record<string, string>; body: string };

/** One TCP connection that says exactly what a test wants it to say. */
export type RawConnection = {
  send(bytes: string | Buffer): void;
  /** The next answer, 100 included; rejects when the connection ends before it is whole. */
  answer(): Promise<RawAnswer>;
  /** Resolves when the server ended the connection, with what came that was no answer. */
  ended: Promise<string>;
  destroy(): void;
};

/** Opens a connection to a server on 127.0.0.1. */
export function connectRaw(port: number): RawConnection {
  const socket = connect({ port, host: '127.0.0.1' });
  // What is written to a server that has already answered and closed is lost, and meant to be.
  socket.on('error', () => undefined);
  const inbox = receive(socket);
  return {
    send: (bytes) => void socket.write(bytes),
    answer: async () => {
      for (;;) {
        const answer = takeAnswer(inbox);
        if (answer) return answer;
        if (inbox.ended) throw new Error(`the connection ended after ${inbox.text.length} bytes`);
        await inbox.change();
      }
    },
    ended: new Promise((resolve) => socket.once('close', () => resolve(inbox.text))),
    destroy: () => void socket.destroy(),
  };
}

type Inbox = { text: string; ended: boolean; change(): Promise<void> };

function receive(socket: Socket): Inbox {
  let wake = Promise.withResolvers<void>();
  const inbox: Inbox = { text: '', ended: false, change: () => wake.promise };
  const announce = () => {
    wake.resolve();
    wake = Promise.withResolvers();
  };
  socket.on('data', (chunk) => {
    inbox.text += chunk.toString('latin1');
    announce();
  });
  socket.once('close', () => {
    inbox.ended = true;
    announce();
  });
  return inbox;
}

/** Takes one whole answer off the inbox; its body is as long as `content-length` says. */
function takeAnswer(inbox: Inbox): RawAnswer | undefined {
  const headEnd = inbox.text.indexOf('\r\n\r\n');
  if (headEnd < 0) return undefined;
  const [statusLine, ...lines] = inbox.text.slice(0, headEnd).split('\r\n');
  const headers = Object.fromEntries(
    lines.map((line) => {
      const [name, ...value] = line.split(':');
      return [name!.toLowerCase(), value.join(':').trim()];
    }),
  );
  const bodyStart = headEnd + 4;
  const bodyEnd = bodyStart + Number(headers['content-length'] ?? 0);
  if (inbox.text.length < bodyEnd) return undefined;
  const body = Buffer.from(inbox.text.slice(bodyStart, bodyEnd), 'latin1').toString('utf8');
  inbox.text = inbox.text.slice(bodyEnd);
  return { status: Number(statusLine!.split(' ')[1]), headers, body };
}
