import { createHmac, createSecretKey, type KeyObject } from 'node:crypto';
import { lookup, Resolver } from 'node:dns/promises';
import type { ClientRequest, IncomingMessage, RequestOptions } from 'node:http';
import https from 'node:https';
import type { LookupFunction } from 'node:net';
import { urlToHttpOptions } from 'node:url';
import { currentApiVersion } from '@triplock/contracts';
import { isAllowedAddress, targetRefusal, type TargetPolicy } from '@triplock/partners';
import { http } from '@triplock/runtime';

/** One attempt: where to, what, and the secrets to sign it with. */
export type WebhookRequest = {
  endpoint: { url: string; secrets: readonly string[] };
  /** The webhook-id: an event's, the same on every attempt. */
  id: string;
  body: string;
  /** Gives the attempt up from outside. */
  signal: AbortSignal;
  /** Has a 2xx read to its end, which then counts to the time-out, and how far. */
  readAnswer?: { bytesMax: number; timeoutMs: number };
};

/** What one attempt came to. Only a 2xx is `delivered`; a redirect is a refusal like any other. */
export type WebhookOutcome =
  | { outcome: 'delivered'; status: number; answer?: string }
  /** Where its server says when to come again: that, and an hour at most. */
  | { outcome: 'refused'; status: number; retryAfterMs?: number }
  /** It may have arrived all the same. */
  | { outcome: 'unanswered'; error: string }
  /** Nothing was sent, because it must not or cannot be. */
  | { outcome: 'unsendable'; error: string };

/**
 * The same, or nothing was tried: its partner had no open endpoint any more when it was to be made,
 * or its secret could not be opened here. It counts as no attempt, and is due again after a while.
 */
export type AttemptOutcome =
  WebhookOutcome | { outcome: 'not-sent'; againInMs: number; error?: string };

/** Sends one attempt. It never rejects. */
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
  const checked = checkedLookup(options.policy, options.resolve);
  const agents = {
    'http:': new http.Agent({ keepAlive: true }),
    'https:': new https.Agent({ keepAlive: true }),
  };
  const targetOf = kept((url) => readTarget(url, options.policy));
  return async (request) => {
    const { endpoint, id, body, readAnswer } = request;
    const target = targetOf(endpoint.url);
    if ('refusal' in target) return unsendable(target.refusal);
    let signed: Record<string, string>;
    try {
      signed = signWebhook(endpoint.secrets, { id, body, at: new Date() });
    } catch {
      return unsendable('its secret is malformed');
    }
    const how = {
      ...target.options,
      headers: { ...signed, ...contentHeaders(body) },
      agent: agents[target.protocol],
      lookup: checked,
      method: 'POST',
    };
    const limits = {
      signal: request.signal,
      timeoutMs: readAnswer?.timeoutMs ?? options.timeoutMs,
      answerBytesMax: readAnswer?.bytesMax,
    };
    return post(how, body, limits);
  };
}

type Target = { refusal: string } | { protocol: 'http:' | 'https:'; options: RequestOptions };

function readTarget(url: string, policy: TargetPolicy): Target {
  if (!URL.canParse(url)) return { refusal: 'its URL is malformed' };
  const target = new URL(url);
  const refusal = targetRefusal(target, policy);
  if (refusal !== undefined) return { refusal };
  const protocol = target.protocol as 'http:' | 'https:';
  return { protocol, options: urlToHttpOptions(target) };
}

/**
 * Whether a server wants webhooks, by its answer to the question. Only `echoed` says so; anything
 * else may be somebody's server that a partner aims at.
 */
export type EndpointAnswer =
  Exclude<WebhookOutcome, { outcome: 'delivered' }> | { outcome: 'echoed' | 'not-echoed' };

function contentHeaders(body: string): Record<string, string> {
  return {
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    'user-agent': 'Triplock-Webhooks/1',
    'triplock-version': currentApiVersion,
  };
}

type PostLimits = {
  /** Gives it up from outside. */
  signal: AbortSignal;
  timeoutMs: number;
  answerBytesMax: number | undefined;
};

function post(
  options: RequestOptions,
  body: string,
  { answerBytesMax, ...limits }: PostLimits,
): Promise<WebhookOutcome> {
  const { request } = options.protocol === 'https:' ? https : http;
  return new Promise((resolve) => {
    const outgoing = request(options);
    endInTime(outgoing, limits);
    outgoing.on('response', (response) => {
      const status = response.statusCode!;
      const isTaken = status >= 200 && status < 300;
      if (isTaken && answerBytesMax !== undefined) {
        readWhole(response, answerBytesMax, (answer) =>
          resolve({ outcome: 'delivered', status, ...(answer !== undefined && { answer }) }),
        );
      } else {
        readAway(response);
        if (isTaken) return resolve({ outcome: 'delivered', status });
        const retryAfterMs = retryAfterOf(response, Date.now());
        resolve({
          outcome: 'refused',
          status,
          ...(retryAfterMs !== undefined && { retryAfterMs }),
        });
      }
    });
    outgoing.on('error', (error) => resolve(outcomeOf(error)));
    // A receiver that switches protocols ends the request with neither an answer nor an error.
    outgoing.on('close', () => resolve({ outcome: 'unanswered', error: 'closed unanswered' }));
    outgoing.end(body);
  });
}

// Statuses that say when to come again (RFC 6585, section 4; RFC 9110, section 15.6.4).
const saysWhen: readonly (number | undefined)[] = [429, 503];
const retryAfterMaxMs = 3_600_000;
const httpDate = /^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/;

/**
 * How long a server asks not to be called, from `Retry-After` as RFC 9110, section 10.2.3 has it:
 * seconds, or a date, of whose three forms the one that is sent today is read. An hour at most;
 * `undefined` for an answer that does not say it, or in no way that can be read.
 */
export function retryAfterOf(
  { statusCode, headers }: Pick<IncomingMessage, 'statusCode' | 'headers'>,
  nowMs: number,
): number | undefined {
  const text = headers['retry-after'];
  if (text === undefined || !saysWhen.includes(statusCode)) return undefined;
  let ms = Number.NaN;
  if (/^\d+$/.test(text)) ms = Number(text) * 1_000;
  else if (httpDate.test(text)) ms = Math.max(0, Date.parse(text) - nowMs);
  return Number.isNaN(ms) ? undefined : Math.min(ms, retryAfterMaxMs);
}

/** It was not answered in time, or nobody waits for it any more. */
class EndedUnansweredError extends Error {
  override name = 'EndedUnansweredError';
}

/**
 * Ends a request when its time is over, or when it is given up. By a timer and a listener that go
 * with it: a signal of both, as `AbortSignal.any` makes it, costs more than its signature.
 */
function endInTime(
  outgoing: ClientRequest,
  { signal, timeoutMs }: Pick<PostLimits, 'signal' | 'timeoutMs'>,
): void {
  const end = () => void outgoing.destroy(new EndedUnansweredError('no answer in time'));
  const late = setTimeout(end, timeoutMs);
  signal.addEventListener('abort', end);
  outgoing.once('close', () => {
    clearTimeout(late);
    signal.removeEventListener('abort', end);
  });
  if (signal.aborted) end();
}

function outcomeOf(error: NodeJS.ErrnoException): WebhookOutcome {
  if (error.name === 'AddressRefusedError') return unsendable(error.message);
  if (error instanceof EndedUnansweredError) return { outcome: 'unanswered', error: error.message };
  return { outcome: 'unanswered', error: error.code ?? error.message };
}

/** The status is the outcome; the answer's body is read for the connection's sake only. */
function readAway(answer: IncomingMessage): void {
  let bytes = 0;
  answer.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > answerBytesMax) answer.destroy();
  });
  // A body that breaks off changes nothing about the status that came before it.
  answer.on('error', () => answer.destroy());
}

/**
 * Gives an answer that ended, or `undefined` for one that is too long, and nothing for one that
 * breaks off: its request is then closed unanswered.
 */
function readWhole(
  answer: IncomingMessage,
  bytesMax: number,
  done: (text: string | undefined) => void,
): void {
  const chunks: Buffer[] = [];
  let bytes = 0;
  answer.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes <= bytesMax) return void chunks.push(chunk);
    done(undefined);
    answer.destroy();
  });
  answer.on('end', () => done(Buffer.concat(chunks).toString('utf8')));
  answer.on('error', () => answer.destroy());
}

function unsendable(error: string): WebhookOutcome {
  return { outcome: 'unsendable', error };
}

/** The three headers of Standard Webhooks 1.0. */
type WebhookHeaders = {
  'webhook-id': string;
  'webhook-timestamp': string;
  'webhook-signature': string;
};

/** What is signed. `at` is the time of this attempt; receivers refuse one that is minutes away. */
type SignedContent = { id: string; body: string; at: Date };

/**
 * Signs one attempt with every secret of the endpoint, newest first, so that a receiver may change
 * to the new secret at any time while they rotate (Standard Webhooks 1.0, "Signature scheme"). By
 * `node:crypto`, because the library's own SHA-256 in JavaScript takes five times as long; the
 * library is what the tests compare with.
 *
 * @throws when a secret is not `whsec_` and base64.
 */
export function signWebhook(secrets: readonly string[], content: SignedContent): WebhookHeaders {
  const { id, body, at } = content;
  const timestamp = String(Math.floor(at.getTime() / 1_000));
  const signed = `${id}.${timestamp}.${body}`;
  const signatures = secrets.map((secret) => {
    return `v1,${createHmac('sha256', keyOf(secret)).update(signed).digest('base64')}`;
  });
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': signatures.join(' '),
  };
}

const secretForm = /^whsec_((?:[a-z\d+/]{4})*(?:[a-z\d+/]{2}==|[a-z\d+/]{3}=)?)$/i;

/** Kept, because making the key takes five times as long as signing with it. */
const keyOf = kept((secret): KeyObject => {
  // Node would decode what it can of any text. The error does not quote the secret.
  const [, base64] = secretForm.exec(secret) ?? [];
  if (!base64) throw new TypeError('the secret is not whsec_ and base64');
  return createSecretKey(base64, 'base64');
});

const keptMax = 1_000;

/** What is made of a text, made once for some that come again and again. */
function kept<Made>(make: (text: string) => Made): (text: string) => Made {
  const known = new Map<string, Made>();
  return (text) => {
    const before = known.get(text);
    if (before !== undefined) return before;
    const made = make(text);
    if (known.size >= keptMax) known.clear();
    known.set(text, made);
    return made;
  };
}

/** Every address of a host name; rejects when it has none. */
type ResolveHost = (host: string) => Promise<string[]>;

/** The name leads to an address that webhooks may not go to. */
class AddressRefusedError extends Error {
  override name = 'AddressRefusedError';
}

/**
 * Resolves names for outgoing connections and refuses a name when any of its addresses is not
 * allowed. The socket connects to just the addresses that were checked here, so a name that
 * changes its mind between check and connection gains nothing (DNS rebinding).
 */
export function checkedLookup(policy: TargetPolicy, resolve: ResolveHost): LookupFunction {
  return (host, options, callback) => {
    resolve(host).then(
      (addresses) => {
        if (!addresses.every((address) => isAllowedAddress(address, policy))) {
          return callback(new AddressRefusedError('its address is not public'), '', 0);
        }
        const found = addresses.map((address) => ({ address, family: familyOf(address) }));
        if (options.all === true) return callback(null, found);
        return callback(null, found[0]!.address, found[0]!.family);
      },
      (error: Error) => callback(error, '', 0),
    );
  };
}

/**
 * Asks DNS directly. Not by `dns.lookup`: its four threads are the whole process's, and four names
 * whose servers are silent would hold up everybody's webhooks.
 */
function dnsResolver(): ResolveHost {
  const resolver = new Resolver({ timeout: 2_000, tries: 2 });
  return async (host) => {
    const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    const addresses = answers.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
    if (addresses.length > 0) return addresses;
    throw new Error('its host name has no address', { cause: answers });
  };
}

/**
 * As the policy asks: where webhooks may go to this machine, its own names lead there as well, such
 * as localhost and what its hosts file adds, which no DNS knows.
 */
export function resolverFor(policy: TargetPolicy): ResolveHost {
  const ask = dnsResolver();
  if (policy === 'public') return ask;
  return async (host) => {
    try {
      return await ask(host);
    } catch (error) {
      const found = await lookup(host, { all: true }).catch(() => []);
      if (found.length === 0) throw error;
      return found.map(({ address }) => address);
    }
  };
}

function familyOf(address: string): 4 | 6 {
  return address.includes(':') ? 6 : 4;
}

/** What is kept of an attempt: the status of an answer, and what was wrong. */
export function answerOf(outcome: AttemptOutcome): {
  status: number | null;
  error: string | null;
} {
  switch (outcome.outcome) {
    case 'delivered':
      return { status: outcome.status, error: null };
    case 'refused':
      return { status: outcome.status, error: `answered ${outcome.status}` };
    case 'unanswered':
    case 'unsendable':
      return { status: null, error: outcome.error };
    case 'not-sent':
      return { status: null, error: null };
    default:
      return outcome satisfies never;
  }
}
