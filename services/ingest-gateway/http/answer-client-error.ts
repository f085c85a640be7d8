import { Problem, type ProblemCode } from '@triplock/contracts';
import type { ConnectionError } from 'fastify';
import { STATUS_CODES, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { httpLimits } from './http-limits.ts';

/**
 * Answers what never became a request: too slow, too large a head, or not HTTP at all. The
 * connection ends with it, since it is unknown where the next request would begin.
 */
export function answerClientError(error: ConnectionError, socket: Socket): void {
  const late = error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
  // A request that is still at work may be one that is accepted: an answer written now would be
  // taken for its answer. Closing without a word is unknown to the client, which is the truth.
  if (error.code === 'ECONNRESET' || !socket.writable || (isAnswering(socket) && !late)) {
    socket.destroy();
    return;
  }
  socket.end(render(problemOf(error)), () => socket.destroy());
}

/** Node keeps the response that a socket waits for here; it is not in the types. */
function isAnswering(socket: Socket & { _httpMessage?: ServerResponse | null }): boolean {
  return Boolean(socket._httpMessage);
}

function problemOf(error: ConnectionError): Problem {
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new Problem('request_timeout', 'Send the whole request faster.');
  }
  if (error.code !== 'HPE_HEADER_OVERFLOW') {
    return new Problem('invalid_request', 'Send a valid HTTP/1.1 request.');
  }
  return new Problem(overflowCode(error.rawPacket), 'Send a request head of at most 16 KiB.');
}

/**
 * Node counts the target as part of the head, so a head can be too large by its first line alone.
 */
function overflowCode(packet: unknown): ProblemCode {
  const firstLine = Buffer.isBuffer(packet)
    ? packet.toString('latin1', 0, httpLimits.uriBytesMax)
    : '';
  return /^[A-Z]+ [^\n]*$/.test(firstLine) ? 'uri_too_long' : 'headers_too_large';
}

function render(problem: Problem): string {
  const body = JSON.stringify(problem.body());
  return [
    `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}`,
    'content-type: application/problem+json',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
    '',
    body,
  ].join('\r\n');
}
