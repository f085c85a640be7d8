import { Problem } from '@triplock/contracts';
import type { FastifyReply, FastifyRequest } from 'fastify';

/**
 * Answers any error as `application/problem+json` (RFC 9457). What was not thrown as a problem and
 * is no fault of the request is logged and answered as `internal_error`, without a word about it.
 */
export function sendProblem(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const problem = problemOf(error);
  if (problem.code === 'internal_error') {
    const route = `${request.method} ${request.routeOptions.url ?? ''}`;
    request.log.error({ err: error, route }, 'request failed');
  }
  // Fastify closes after a body it did not read, and bytes that arrive on a closed connection can
  // destroy the answer on its way. Node reads the rest away instead, for `requestTimeoutMs` at
  // most. Not so when the client waits for a 100: nobody can tell whether the next bytes are the
  // body.
  if (request.headers.expect === undefined) reply.removeHeader('connection');
  else reply.header('connection', 'close');
  // As bytes, because to a text Fastify would add a charset, which this media type does not have.
  const body = Buffer.from(JSON.stringify(problem.body()));
  reply.code(problem.status).headers(problem.headers).type('application/problem+json').send(body);
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
