import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { explainListenError } from '@triplock/runtime';
import type { Worker } from './worker.ts';

/** A webhook as it came: the bytes are what was signed. */
export type Webhook = { body: Buffer; signature: string | undefined };

/** What it came to. `received`: it is durable, or of no concern, and must not come again. */
export type Received = 'received' | 'forged';

/** Where Stripe's webhooks come in, and who receives them. */
export type WebhookServerOptions = {
  host: string;
  port: number;
  receive(webhook: Webhook): Promise<Received>;
};

/** Stripe's largest objects are some tens of kilobytes. */
export const bodyBytesMax = 256 * 1_024;

/**
 * A connection that is closed on what was not read loses its answer, so what is too large is read
 * to its end and dropped, up to this.
 */
const droppedBytesMax = 64 * bodyBytesMax;

/** Far above how many Stripe holds open, and few enough to keep each one's body in memory. */
const connectionsMax = 256;
const requestTimeoutMs = 10_000;
/** What a request that is under way may still take once the worker stops. */
const drainMs = 2_000;

/**
 * Serves `POST /stripe/webhooks`, and `GET /healthz` for a load balancer. It answers 2xx
 * once what was received is durable, 400 to a forgery, and 503 when Stripe has to send it again.
 * Rejects when the port is taken.
 */
export async function serveWebhooks(
  worker: Worker,
  options: WebhookServerOptions,
): Promise<{ close(): Promise<void> }> {
  const server = createServer({ requestTimeout: requestTimeoutMs }, (request, response) => {
    answer(worker, options, request).then(
      (status) => status !== 'nobody-left' && send(response, status),
      (err: unknown) => {
        worker.logger.warn(
          { err },
          'a Stripe webhook could not be handled, Stripe will send it again',
        );
        send(response, 503);
      },
    );
  });
  server.maxConnections = connectionsMax;
  server.listen({ host: options.host, port: options.port });
  await once(server, 'listening').catch((error: Error) => {
    throw explainListenError(error, 'WEBHOOKS_PORT');
  });
  return { close: () => closeInTime(server) };
}

type Status = 200 | 400 | 404 | 405 | 413 | 503;

const details: Readonly<Record<Status, string>> = {
  200: 'ok',
  400: 'not signed by Stripe with a secret that is known here, or too old',
  404: 'nothing is here',
  405: 'POST only',
  413: 'too large',
  503: 'not now',
};

/** Anybody can reach this, so what no secret has signed makes no noise in the log. */
async function answer(
  { metrics, logger }: Worker,
  { receive }: WebhookServerOptions,
  request: IncomingMessage,
): Promise<Status | 'nobody-left'> {
  const path = request.url?.split('?', 1)[0];
  if (path === '/healthz') return 200;
  if (path !== '/stripe/webhooks') return 404;
  if (request.method !== 'POST') return 405;
  const read = await readBody(request);
  if (read.outcome !== 'read') {
    metrics.providerEvents.count(read.outcome);
    logger.debug({ outcome: read.outcome }, 'a webhook that was not read to its end');
    return read.outcome === 'too-large' ? 413 : 'nobody-left';
  }
  const signature = request.headers['stripe-signature'];
  const received = await receive({ body: read.body, signature: signature?.toString() });
  return received === 'received' ? 200 : 400;
}

type ReadBody = { outcome: 'read'; body: Buffer } | { outcome: 'too-large' | 'aborted' };

/** The bytes as they came, because they are what was signed. */
async function readBody(request: IncomingMessage): Promise<ReadBody> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      // Leaving the loop cuts the connection.
      if (bytes > droppedBytesMax) break;
      if (bytes <= bodyBytesMax) chunks.push(chunk);
    }
  } catch (error) {
    if (!request.destroyed) throw error;
    return { outcome: 'aborted' };
  }
  if (bytes > bodyBytesMax) return { outcome: 'too-large' };
  return { outcome: 'read', body: Buffer.concat(chunks) };
}

function send(response: ServerResponse, status: Status): void {
  const later = status === 503 ? { 'retry-after': '5' } : {};
  response.writeHead(status, { 'content-type': 'application/json', ...later });
  response.end(JSON.stringify({ detail: details[status] }));
}

async function closeInTime(server: Server): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  await Promise.race([closed, delay(drainMs, undefined, { ref: false })]);
  server.closeAllConnections();
  await closed;
}
