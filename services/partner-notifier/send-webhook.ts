import http, { type IncomingMessage, type RequestOptions } from 'node:http';
import https from 'node:https';
import { targetRefusal, type TargetPolicy } from '@triplock/partners';
import type { EventId } from '@triplock/payments';
import { checkedLookup, type ResolveHost } from './checked-lookup.ts';
import { signWebhook } from './sign-webhook.ts';

/** One attempt: where to, what, and the secrets to sign it with. */
export type WebhookRequest = {
  endpoint: { url: string; secrets: readonly string[] };
  eventId: EventId;
  body: string;
  /** Gives the attempt up from outside. */
  signal: AbortSignal;
};

/** What one attempt came to. Only a 2xx is `delivered`; a redirect is a refusal like any other. */
export type WebhookOutcome =
  | { outcome: 'delivered'; status: number }
  | { outcome: 'refused'; status: number }
  /** It may have arrived all the same. */
  | { outcome: 'unanswered'; error: string }
  /** Nothing was sent, because it must not or cannot be. */
  | { outcome: 'unsendable'; error: string };

/** Sends single attempts. It never rejects. */
export type SendWebhook = (request: WebhookRequest) => Promise<WebhookOutcome>;

/** How attempts are made. */
export type SendWebhookOptions = {
  policy: TargetPolicy;
  resolve: ResolveHost;
  /** The whole attempt: look-up, connection, TLS, request and the head of the answer. */
  timeoutMs: number;
};

// Enough for a polite answer, so that its connection can be used again; the rest is not read.
const answerBytesMax = 64 * 1024;

/** A sender in the form of Standard Webhooks 1.0, with connections kept alive. */
export function createSendWebhook(options: SendWebhookOptions): SendWebhook {
  const lookup = checkedLookup(options.policy, options.resolve);
  const agents = {
    'http:': new http.Agent({ keepAlive: true }),
    'https:': new https.Agent({ keepAlive: true }),
  };
  return async (request) => {
    const { endpoint, eventId, body } = request;
    if (!URL.canParse(endpoint.url)) return unsendable('its URL is malformed');
    const target = new URL(endpoint.url);
    const refusal = targetRefusal(target, options.policy);
    if (refusal !== undefined) return unsendable(refusal);
    let signed: Record<string, string>;
    try {
      signed = signWebhook(endpoint.secrets, { eventId, body, at: new Date() });
    } catch {
      // The library's error is not passed on: it may quote the secret.
      return unsendable('its secret is malformed');
    }
    return post(target, body, {
      headers: { ...signed, ...contentHeaders(body) },
      agent: agents[target.protocol as keyof typeof agents],
      lookup,
      signal: AbortSignal.any([request.signal, AbortSignal.timeout(options.timeoutMs)]),
    });
  };
}

function contentHeaders(body: string): Record<string, string> {
  return {
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    'user-agent': 'Triplock-Webhooks/1',
  };
}

function post(target: URL, body: string, options: RequestOptions): Promise<WebhookOutcome> {
  const { request } = target.protocol === 'https:' ? https : http;
  return new Promise((resolve) => {
    const outgoing = request(target, { ...options, method: 'POST' });
    outgoing.on('response', (answer) => {
      readAway(answer);
      const status = answer.statusCode!;
      const outcome = status >= 200 && status < 300 ? 'delivered' : 'refused';
      resolve({ outcome, status });
    });
    outgoing.on('error', (error) => resolve(outcomeOf(error)));
    // A receiver that switches protocols ends the request with neither an answer nor an error.
    outgoing.on('close', () => resolve({ outcome: 'unanswered', error: 'closed unanswered' }));
    outgoing.end(body);
  });
}

function outcomeOf(error: NodeJS.ErrnoException): WebhookOutcome {
  if (error.name === 'AddressRefusedError') return unsendable(error.message);
  if (error.name === 'AbortError') return { outcome: 'unanswered', error: 'no answer in time' };
  return { outcome: 'unanswered', error: error.code ?? error.message };
}

/** The status has said everything; the answer's body is read for the connection's sake only. */
function readAway(answer: IncomingMessage): void {
  let bytes = 0;
  answer.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > answerBytesMax) answer.destroy();
  });
  // A body that breaks off changes nothing about the status that came before it.
  answer.on('error', () => answer.destroy());
}

function unsendable(error: string): WebhookOutcome {
  return { outcome: 'unsendable', error };
}
