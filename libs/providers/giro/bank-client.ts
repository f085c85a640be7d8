import type { ClientRequest, IncomingMessage, RequestOptions } from 'node:http';
import { ProviderError, type Unknown } from '@triplock/provider';
import { bodyWithin, http } from '@triplock/runtime';

// As `http` is had.
const https = process.getBuiltinModule('node:https');

/** Where the bank answers whom, and for how long it is waited for. */
export type BankOptions = {
  apiUrl: string;
  token: string;
  /** Until a call is given up, its outcome being unknown then; milliseconds. */
  timeoutMs: number;
};

/** What is asked of the bank: a path behind `/v1`, and a body where there is one. */
export type BankCall = { method: 'GET' | 'PUT' | 'POST'; path: string; body?: object };

/** A whole answer: a status, and a JSON object. */
export type BankAnswer = {
  outcome: 'answered';
  status: number;
  body: Readonly<Record<string, unknown>>;
};

/** The bank over HTTP; whatever is no whole answer, or none for this request, is unknown. */
export type Bank = (call: BankCall) => Promise<BankAnswer | Unknown>;

/** An answer longer than any page is none. */
const answerBytesMax = 4 * 1024 * 1024;

/** Opens the bank's interface. Connections are kept; nothing is sent twice by itself. */
export function openBank({ apiUrl, token, timeoutMs }: BankOptions): Bank {
  const base = apiUrl.replace(/\/$/, '');
  const { Agent, request } = base.startsWith('https:') ? https : http;
  const agent = new Agent({ keepAlive: true });
  return async ({ method, path, body }) => {
    const sent = body === undefined ? undefined : JSON.stringify(body);
    const options: RequestOptions = {
      method,
      agent,
      headers: {
        authorization: `Bearer ${token}`,
        ...(sent !== undefined && {
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(sent),
        }),
      },
      // Of the whole call, its answer included.
      signal: AbortSignal.timeout(timeoutMs),
    };
    try {
      const response = await answerTo(request(`${base}/v1${path}`, options), sent);
      return sorted(response, await wholeBody(response));
    } catch (error) {
      return unknownBecause(error);
    }
  };
}

function answerTo(request: ClientRequest, body: string | undefined): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  request.once('response', resolve).once('error', reject).end(body);
  return promise;
}

async function wholeBody(response: IncomingMessage): Promise<unknown> {
  const body = await bodyWithin(response, answerBytesMax);
  if (body === undefined) throw new ProviderError({ type: 'answer_too_long' });
  return JSON.parse(body.toString('utf8'));
}

/**
 * 2xx, 404, 409 and 422 say what became of this request, where they say it as the bank does. A
 * token that is not taken, a call that is not understood, a path that there is not, a limit and any
 * trouble say nothing about the payment.
 */
function sorted({ statusCode = 0, headers }: IncomingMessage, body: unknown): BankAnswer | Unknown {
  if (isObject(body) && isAbout(statusCode, body)) {
    return { outcome: 'answered', status: statusCode, body };
  }
  const seconds = Number(headers['retry-after']);
  const isRefused = statusCode >= 400 && statusCode < 500 && statusCode !== 429;
  return {
    outcome: 'unknown',
    error: new ProviderError({ type: 'bank_error', statusCode }),
    kept: false,
    sent: true,
    ...(seconds > 0 && { retryAfterMs: seconds * 1_000 }),
    ...(statusCode === 429 && { tooMany: { of: 'all', by: 'rate' } }),
    ...(isRefused && { untilMended: true }),
  };
}

const isObject = (body: unknown): body is BankAnswer['body'] =>
  typeof body === 'object' && body !== null && !Array.isArray(body);

function isAbout(status: number, { code }: BankAnswer['body']): boolean {
  switch (status) {
    case 404:
      return code === 'not_found';
    case 409:
      return true;
    case 422:
      return typeof code === 'string' && code !== '';
    default:
      return status >= 200 && status < 300;
  }
}

/** What is known of a call after an error: it may have been carried out. Nothing of it is kept. */
export function unknownBecause(error: unknown): Unknown {
  const known = error instanceof ProviderError ? error : new ProviderError(shownOf(error));
  return { outcome: 'unknown', error: known, kept: false, sent: true };
}

/** Neither an address nor an account: a code of Node's own, or the name of the error. */
function shownOf(error: unknown): { type: string; code?: string | undefined } {
  const { name, code } = error as { name?: string; code?: unknown };
  return { type: name ?? 'Error', code: typeof code === 'string' ? code : undefined };
}
