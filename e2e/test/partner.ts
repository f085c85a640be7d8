import assert from 'node:assert/strict';
import { createHmac, randomBytes } from 'node:crypto';
import { Agent, createServer, request as httpRequest } from 'node:http';
import type { Endpoints } from '@triplock/launcher';
import type { HistoryRecorder } from '@triplock/inspect';
import { followUpKinds, paymentKinds } from '@triplock/payments';
import { eventually } from '@triplock/testing';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

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

const asksAgain = { withinMs: 60_000, what: 'an answer that is no 409 and no 503' };

/**
 * Sends a request under one key until its answer is not that it be sent again: 503, which may leave
 * its claim in flight for a while, or 409, as long as that one is.
 */
export function insist(send: () => Promise<Answer>): Promise<Answer> {
  return eventually(async () => {
    const answer = await send();
    assert.ok(![409, 503].includes(answer.status), `${answer.status} ${answer.body}`);
    return answer;
  }, asksAgain);
}

const agent = new Agent({ keepAlive: true, maxSockets: 256 });

/** Where a partner's requests are written down, and what its client is called there. */
export type Recording = { history: HistoryRecorder; by: string };

/** A partner that spreads its requests over all gateways; a recorded one writes each of them. */
export function partner(
  system: Pick<Endpoints, 'gateways' | 'partners'>,
  id: string,
  recording?: Recording,
): Partner {
  const apiKey = system.partners.find((each) => each.id === id)!.apiKey;
  let sent = 0;
  const send = (request: PartnerRequest) => {
    const gateway = system.gateways[sent++ % system.gateways.length]!;
    const sending = () =>
      sendTo(gateway, {
        ...request,
        headers: { authorization: `Bearer ${apiKey}`, ...request.headers },
      });
    const kind = kindOf(request);
    if (recording === undefined || kind === undefined) return sending();
    return recorded(recording, { partner: id, kind, request }, sending);
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

type RecordedRequest = {
  partner: string;
  kind: NonNullable<ReturnType<typeof kindOf>>;
  request: PartnerRequest;
};

/** What a history calls a request; nothing for one that is about no payment and what follows it. */
function kindOf({ method = 'GET', path }: PartnerRequest) {
  if (method === 'GET') return 'read';
  if (method !== 'POST') return undefined;
  const [, made] = /^\/v1\/(\w+)s$/.exec(path) ?? [];
  const [, follows] = /^\/v1\/payments\/[^/]+\/(\w+)s$/.exec(path) ?? [];
  return (
    paymentKinds.find((kind) => kind === made) ?? followUpKinds.find((kind) => kind === follows)
  );
}

/** Sends a request between its two lines; one that fails leaves it unknown what came of it. */
async function recorded(
  { history, by }: Recording,
  { partner, kind, request }: RecordedRequest,
  sending: () => Promise<Answer>,
): Promise<Answer> {
  const { method = 'GET', path, key } = request;
  const body = bodyText(request);
  const n = history.asked({
    by,
    partner,
    kind,
    method,
    path,
    ...(key !== undefined && { key }),
    ...(body !== undefined && { body }),
  });
  try {
    const answer = await sending();
    const retryAfter = answer.headers['retry-after'];
    history.answered(n, {
      status: answer.status,
      ...(answer.headers['idempotency-replayed'] === 'true' && { replayed: true }),
      ...(retryAfter !== undefined && { retryAfter: Number(retryAfter) }),
      body: answer.body,
    });
    return answer;
  } catch (error) {
    history.unanswered(n, error instanceof Error ? error.message : String(error));
    throw error;
  }
}

function bodyText({ body }: PartnerRequest): string | undefined {
  return typeof body === 'string' ? body : JSON.stringify(body);
}

/** Sends one request to one gateway. */
export function sendTo(gateway: string, request: PartnerRequest): Promise<Answer> {
  const started = performance.now();
  const headers: Record<string, string> = { ...request.headers };
  if (request.key !== undefined) headers['idempotency-key'] = request.key;
  const text = bodyText(request);
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

/** Has a partner's webhooks go nowhere any more, before their receiver ends. */
export async function deleteEndpoints(gateway: string, apiKey: string): Promise<void> {
  const path = '/v1/webhook-endpoints';
  const headers = { authorization: `Bearer ${apiKey}` };
  const { body } = await sendTo(gateway, { path, headers });
  for (const { id } of (JSON.parse(body) as { data: { id: string }[] }).data) {
    const deleted = await sendTo(gateway, { method: 'DELETE', path: `${path}/${id}`, headers });
    if (deleted.status !== 204) throw new Error(`${path}/${id} got ${deleted.status}`);
  }
}

/** A key nobody used before. */
export function newKey(prefix = 'e2e'): string {
  return `${prefix}-${randomBytes(9).toString('base64url')}`;
}

/** A webhook as it came, headers and bytes. */
type ReceivedWebhook = { id: string; timestamp: string; signatures: string[]; body: string };

/** How a receiver answers each webhook. */
type ReceiverAnswer = { status: number; headers?: Record<string, string>; body?: string };

/** A partner's own server for webhooks. */
export type WebhookReceiver = {
  url: string;
  /**
   * Whether it answers that it wants webhooks, as any partner's server has to; from now on, true
   * unless told. What it was asked is then not among what it received.
   */
  wantsWebhooks: boolean;
  /** From now on; 204 unless told. It may depend on how many came by now. */
  answer: ReceiverAnswer | ((received: number, webhook: ReceivedWebhook) => ReceiverAnswer);
  received: ReceivedWebhook[];
  close(): Promise<void>;
};

const loopback = '127.0.0.1';

/**
 * Listens on a port of its own on this machine, which its senders call `machine`: on 127.0.0.1,
 * where webhooks may go in demo mode only, or where containers reach it.
 */
export async function openWebhookReceiver(machine = loopback): Promise<WebhookReceiver> {
  const received: ReceivedWebhook[] = [];
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const header = (name: string) => String(request.headers[name]);
      const webhook = {
        id: header('webhook-id'),
        timestamp: header('webhook-timestamp'),
        signatures: header('webhook-signature').split(' '),
        body,
      };
      const token = receiver.wantsWebhooks && tokenIn(body);
      if (token) return response.end(token);
      received.push(webhook);
      const { answer } = receiver;
      const {
        status,
        headers,
        body: told,
      } = typeof answer === 'function' ? answer(received.length, webhook) : answer;
      return response.writeHead(status, headers).end(told);
    });
  });
  server.listen(0, machine === loopback ? loopback : '0.0.0.0');
  await once(server, 'listening');
  const receiver: WebhookReceiver = {
    wantsWebhooks: true,
    answer: { status: 204 },
    url: `http://${machine}:${(server.address() as AddressInfo).port}/hooks`,
    received,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return receiver;
}

/** The token of an `endpoint.verification`; `undefined` for another webhook. */
function tokenIn(body: string): string | undefined {
  const { type, data } = JSON.parse(body) as { type: string; data: { token?: string } };
  return type === 'endpoint.verification' ? data.token : undefined;
}

/**
 * Whether a secret signed the webhook, by the text of Standard Webhooks 1.0 and not by a library
 * that the sender uses as well.
 */
export function isSignedBy(secret: string, webhook: ReceivedWebhook): boolean {
  const { id, timestamp, signatures, body } = webhook;
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const mac = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  return signatures.includes(`v1,${mac}`);
}
