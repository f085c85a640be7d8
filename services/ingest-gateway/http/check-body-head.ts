import { Problem } from '@triplock/contracts';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { HttpLimits } from './http-limits.ts';

/**
 * A hook that judges a body by its headers, before a byte of it is read: its type, its encoding and
 * its announced length. Only then a client that waits (`Expect: 100-continue`) is told to go on.
 */
export function checkBodyHead({ bodyBytesMax }: HttpLimits) {
  return (request: FastifyRequest, reply: FastifyReply, done: (error?: Problem) => void): void => {
    const { headers, method } = request;
    if (method === 'GET' || method === 'HEAD' || !announcesBody(request)) return done();
    if (!isJson(headers['content-type'])) {
      return done(unsupported('Send the body as application/json in UTF-8.'));
    }
    if (!isPlain(headers['content-encoding']) || !isChunked(headers['transfer-encoding'])) {
      return done(unsupported('Send the body without any encoding.'));
    }
    if (Number(headers['content-length']) > bodyBytesMax) {
      return done(new Problem('body_too_large', `Send at most ${bodyBytesMax} bytes.`));
    }
    if (headers.expect?.toLowerCase() === '100-continue') reply.raw.writeContinue();
    done();
  };
}

function announcesBody({ headers }: FastifyRequest): boolean {
  return (
    headers['content-type'] !== undefined ||
    headers['transfer-encoding'] !== undefined ||
    (headers['content-length'] ?? '0') !== '0'
  );
}

/** RFC 8259 knows no parameters; `charset=utf-8` is common and says the same. */
function isJson(contentType: string | undefined): boolean {
  if (contentType === 'application/json') return true;
  const [type, ...parameters] = (contentType ?? '').toLowerCase().split(';');
  return type!.trim() === 'application/json' && parameters.every(isHarmless);
}

function isHarmless(parameter: string): boolean {
  const [name, value] = parameter.split('=', 2);
  return name!.trim() !== 'charset' || /^\s*"?utf-8"?\s*$/.test(value ?? '');
}

function isPlain(contentEncoding: string | undefined): boolean {
  return contentEncoding === undefined || contentEncoding.trim().toLowerCase() === 'identity';
}

function isChunked(transferEncoding: string | undefined): boolean {
  return transferEncoding === undefined || transferEncoding.trim().toLowerCase() === 'chunked';
}

function unsupported(detail: string): Problem {
  return new Problem('unsupported_media_type', detail);
}
