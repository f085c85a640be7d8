import {
  currentApiVersion,
  Problem,
  type FieldProblem,
  type ProblemCode,
} from '@triplock/contracts';
import type { TransactionKind } from '@triplock/payments';
import { http } from '@triplock/runtime';
import type { ConnectionError, FastifyReply, FastifyRequest } from 'fastify';
import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Answers any error as `application/problem+json` (RFC 9457). What was not thrown as a problem and
 * is no fault of the request is logged and answered as `internal_error`, without a word about it.
 */
export function sendProblem(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const problem = problemOf(error);
  if (problem.code === 'internal_error') {
    const route = `${request.method} ${request.routeOptions.url ?? ''}`;
    request.log.error({ err: error, route, requestId: request.id }, 'request failed');
  }
  // Fastify closes after a body it did not read, and bytes that arrive on a closed connection can
  // destroy the answer on its way. Node reads the rest away instead, for `requestTimeoutMs` at
  // most. Not so when the client waits for a 100: nobody can tell whether the next bytes are the
  // body; nor when the connection ends anyway.
  const staysOpen = reply.raw.shouldKeepAlive && request.headers.expect === undefined;
  if (staysOpen) reply.removeHeader('connection');
  else reply.header('connection', 'close');
  // As bytes, because to a text Fastify would add a charset, and what it refuses by itself meets no
  // hook that takes it off.
  const body = Buffer.from(JSON.stringify(problem.body(request.id)));
  // Also here, because what Fastify refuses by itself meets no hook.
  reply
    .header('Request-Id', request.id)
    .header('Triplock-Version', request.apiVersion ?? currentApiVersion)
    .code(problem.status)
    .headers(problem.headers)
    .type('application/problem+json')
    .send(body);
}

function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error;
  switch ((error as { code?: unknown } | null)?.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new Problem('body_too_large', 'Send a smaller body.');
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new Problem('unsupported_media_type', 'Send the body as application/json in UTF-8.');
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
    case 'ECONNRESET':
      return new Problem('invalid_request', 'The body ended before its announced length.');
    case 'FST_ERR_BAD_URL':
      return new Problem('invalid_request', 'The path is not validly percent-encoded.');
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return new Problem('uri_too_long', 'Send a shorter target.');
    case 'FST_ERR_NOT_FOUND':
      return new Problem('not_found', 'There is nothing at this path.');
    default:
      return new Problem('internal_error', 'Try again; the request may or may not have been done.');
  }
}

/**
 * Answers what never became a request: too slow, too large a head, or not HTTP at all. The
 * connection ends with it, since it is unknown where the next request would begin.
 */
export function answerClientError(uriBytesMax: number) {
  return (error: ConnectionError, socket: Socket): void => {
    const late = error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
    // A request that is still at work may be one that is accepted: an answer written now would be
    // taken for its answer. Closing without a word is unknown to the client, which is the truth.
    if (error.code === 'ECONNRESET' || !socket.writable || (isAnswering(socket) && !late)) {
      socket.destroy();
      return;
    }
    socket.end(renderProblem(problemOfConnection(error, uriBytesMax)), () => socket.destroy());
  };
}

/** Node keeps the response that a socket waits for here; it is not in the types. */
function isAnswering(socket: Socket & { _httpMessage?: ServerResponse | null }): boolean {
  return Boolean(socket._httpMessage);
}

function problemOfConnection(error: ConnectionError, uriBytesMax: number): Problem {
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new Problem('request_timeout', 'Send the whole request faster.');
  }
  if (error.code !== 'HPE_HEADER_OVERFLOW') {
    return new Problem('invalid_request', 'Send a valid HTTP/1.1 request.');
  }
  return new Problem(
    overflowCode(error.rawPacket, uriBytesMax),
    'Send a request head of at most 16 KiB.',
  );
}

/**
 * Node counts the target as part of the head, so a head can be too large by its first line alone.
 */
function overflowCode(packet: unknown, uriBytesMax: number): ProblemCode {
  const firstLine = Buffer.isBuffer(packet) ? packet.toString('latin1', 0, uriBytesMax) : '';
  return /^[A-Z]+ [^\n]*$/.test(firstLine) ? 'uri_too_long' : 'headers_too_large';
}

/** An answer to what is no request yet, with its head; its connection ends with it. */
export function renderProblem(problem: Problem): string {
  const requestId = randomUUID();
  const body = JSON.stringify(problem.body(requestId));
  return [
    `HTTP/1.1 ${problem.status} ${http.STATUS_CODES[problem.status]}`,
    `request-id: ${requestId}`,
    `triplock-version: ${currentApiVersion}`,
    ...Object.entries(problem.headers).map((header) => header.join(': ')),
    'content-type: application/problem+json',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
    '',
    body,
  ].join('\r\n');
}

/** No key, or none that is good: 401. */
export function unauthorized(): Problem {
  return new Problem('unauthorized', 'Send a valid API key: Authorization: Bearer <api key>.', {
    headers: { 'www-authenticate': 'Bearer' },
  });
}

/** The query of a request target, without its `?`. */
export function queryText(target: string): string {
  const at = target.indexOf('?');
  return at < 0 ? '' : target.slice(at + 1);
}

/** A query that is not what the route asks for: 400, with every parameter that is wrong. */
export function incorrectParameters(errors: readonly FieldProblem[]): Problem {
  return new Problem('invalid_request', 'Correct these parameters and ask again.', { errors });
}

/** A page that is to begin behind what is not `listed`, as `a payment of yours`: 400. */
export function unknownCursor(listed: string): Problem {
  const detail = `expected the id of ${listed} that was listed before`;
  return incorrectParameters([{ pointer: '#/starting_after', detail }]);
}

/** A body that is not what the route asks for: 400, with every field that is wrong. */
export function incorrectFields(errors: readonly FieldProblem[]): Problem {
  return new Problem('invalid_request', 'Correct these fields and send it again.', { errors });
}

// Most waits end within milliseconds, and asking again is cheap: the shortest that the header can
// say.
const retryAfter = { headers: { 'Retry-After': '1' } };

/** The same request is at work: 409. */
export function inUse(): Problem {
  const detail = 'A request with this key is at work. Send the same request again in a moment.';
  return new Problem('idempotency_key_in_use', detail, retryAfter);
}

/** The key belongs to another request: 422. */
export function reused(): Problem {
  const detail = 'This key was used for another request. Send this one with a new key.';
  return new Problem('idempotency_key_reused', detail);
}

/** The partner has as much in the claim store as it may, until so long from now: 429. */
export function tooManyKeys(retryAfterMs: number): Problem {
  const detail =
    'Your keys of the last 24 hours, or the bodies of the last minutes, are as many as may be kept ' +
    'for you. Retries of earlier requests are answered; nothing was done with this one.';
  const seconds = Math.max(1, Math.ceil(retryAfterMs / 1_000));
  return new Problem('rate_limited', detail, { headers: { 'Retry-After': `${seconds}` } });
}

/** The partner has done so as often within a day as it may, until so long from now: 429. */
export function doneTooOften(seconds: number): Problem {
  const detail = 'You have done this as often within 24 hours as you may; nothing was done.';
  return new Problem('rate_limited', detail, { headers: { 'Retry-After': `${seconds}` } });
}

/** Whether the request was accepted is unknown: 503. */
export function maybeAccepted(): Problem {
  const detail = 'Send the same request with the same key again: it takes effect once.';
  return new Problem('unavailable', detail, retryAfter);
}

/** Too many wait already: 503, before anything was done. */
export function tooBusy(): Problem {
  const detail =
    'Too many requests wait. Nothing was done with this one: send it again in a moment.';
  return new Problem('unavailable', detail, retryAfter);
}

/** Whatever would have to be asked does not answer: 503. */
export function unknownYet(): Problem {
  return new Problem('unavailable', 'Send the request again in a moment.', retryAfter);
}

/** Nothing there, or another partner's: 404. */
export function notFound(what: TransactionKind | 'dispute'): Problem {
  return new Problem('not_found', `There is no such ${what}.`);
}

/** More of a partner's than may be at once: 429, before anything was done. */
export function tooManyAtOnce(where = 'at once'): Problem {
  const detail = `Wait for answers: too many requests ${where}. Nothing was done with this one.`;
  return new Problem('rate_limited', detail, retryAfter);
}
