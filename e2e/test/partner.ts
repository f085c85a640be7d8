import { randomBytes } from 'node:crypto';
import { Agent, request as httpRequest } from 'node:http';
import type { Endpoints } from '@triplock/launcher';

/** An HTTP answer, body bytes as text. */
export type Answer = {
  status: number;
  headers: Readonly<Record<string, string | undefined>>;
  body: string;
  tookMs: number;
};

/** A request of a partner. `body` is sent as it is when it is text, else as JSON. */
export type PartnerRequest = {
  method?: string;
  path: string;
  key?: string;
  body?: unknown;
  headers?: Readonly<Record<string, string>>;
};

/** A partner as seen from outside: it knows URLs and an API key, nothing else. */
export type Partner = {
  id: string;
  send(request: PartnerRequest): Promise<Answer>;
  /** POST /v1/payments. */
  pay(key: string, body: unknown): Promise<Answer>;
  /** GET of a payment, waiting up to `waitSeconds` for it to be final. */
  payment(id: string, waitSeconds?: number): Promise<Answer>;
  /** POST of a refund of a payment. */
  refund(paymentId: string, key: string, body: unknown): Promise<Answer>;
  /** GET of a refund, waiting up to `waitSeconds` for it to be final. */
  refunded(id: string, waitSeconds?: number): Promise<Answer>;
};

const agent = new Agent({ keepAlive: true, maxSockets: 256 });

/** A partner that spreads its requests over all gateways. */
export function partner(system: Endpoints, id: 'acme' | 'globex'): Partner {
  const apiKey = system.partners.find((each) => each.id === id)!.apiKey;
  let sent = 0;
  const send = (request: PartnerRequest) => {
    const gateway = system.gateways[sent++ % system.gateways.length]!;
    return sendTo(gateway, {
      ...request,
      headers: { authorization: `Bearer ${apiKey}`, ...request.headers },
    });
  };
  const read = (path: string, waitSeconds: number | undefined) =>
    send({ path, headers: waitSeconds === undefined ? {} : { prefer: `wait=${waitSeconds}` } });
  return {
    id,
    send,
    pay: (key, body) => send({ method: 'POST', path: '/v1/payments', key, body }),
    payment: (id, waitSeconds) => read(`/v1/payments/${id}`, waitSeconds),
    refund: (paymentId, key, body) =>
      send({ method: 'POST', path: `/v1/payments/${paymentId}/refunds`, key, body }),
    refunded: (id, waitSeconds) => read(`/v1/refunds/${id}`, waitSeconds),
  };
}

/** Sends one request to one gateway. */
export function sendTo(gateway: string, request: PartnerRequest): Promise<Answer> {
  const started = performance.now();
  const headers: Record<string, string> = { ...request.headers };
  if (request.key !== undefined) headers['idempotency-key'] = request.key;
  const text = typeof request.body === 'string' ? request.body : JSON.stringify(request.body);
  if (text !== undefined) {
    headers['content-type'] ??= 'application/json';
    headers['content-length'] = String(Buffer.byteLength(text));
  }
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest(
      new URL(request.path, gateway),
      { method: request.method ?? 'GET', headers, agent, timeout: 60_000 },
      (incoming) => {
        const chunks: Buffer[] = [];
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
        incoming.on('error', reject);
        incoming.on('end', () =>
          resolve({
            status: incoming.statusCode!,
            headers: incoming.headers as Answer['headers'],
            body: Buffer.concat(chunks).toString('utf8'),
            tookMs: performance.now() - started,
          }),
        );
      },
    );
    outgoing.on('timeout', () => outgoing.destroy(new Error('no answer within 60 s')));
    outgoing.on('error', reject);
    outgoing.end(text);
  });
}

/** A key nobody used before. */
export function newKey(prefix = 'e2e'): string {
  return `${prefix}-${randomBytes(9).toString('base64url')}`;
}
