import { findCardData, parseStrictJson, Problem, readIdempotencyKey } from '@triplock/contracts';
import {
  hasCardNumber,
  type IdempotencyKey,
  type JsonObject,
  type JsonValue,
  mayLookLikeCard,
} from '@triplock/payments';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { incorrectFields } from './problems.ts';

/**
 * A hook that judges a body by its headers, before a byte of it is read: its type, its encoding and
 * its announced length. Only then a client that waits (`Expect: 100-continue`) may go on.
 */
export function checkBodyHead(bodyBytesMax: number) {
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

/** Fastify's body parser: strict JSON, or a problem that points at what is wrong. */
export function parseJsonBody(
  _request: FastifyRequest,
  bytes: Buffer,
  done: (error: Problem | null, body?: JsonValue) => void,
): void {
  const json = parseStrictJson(bytes);
  if (json.outcome === 'value') return done(null, json.value);
  const { pointer, detail } = json;
  done(
    new Problem('invalid_request', 'Send one JSON value, as RFC 7493 (I-JSON) restricts it.', {
      errors: [{ pointer, detail }],
    }),
  );
}

/**
 * Refuses a body where nothing can be said in one: taking it would promise that it was understood.
 * An empty object says nothing and passes, because many clients send it with every POST.
 */
export function refuseBody({ body }: FastifyRequest): void {
  if (body === undefined || (isObject(body) && Object.keys(body).length === 0)) return;
  throw new Problem('invalid_request', 'Send it without a body.', {
    errors: [{ pointer: '#', detail: 'expected no body, or an empty JSON object' }],
  });
}

function isObject(body: unknown): body is object {
  return typeof body === 'object' && body !== null && !Array.isArray(body);
}

/*
 * Card numbers stay out of this system: whoever stores them has the duties of PCI DSS for every
 * place that they come to. What is refused here was in this process's memory and nowhere else: it
 * is refused before the claim, the record and the span, and the answer does not repeat it.
 */

/**
 * The idempotency key of a request.
 *
 * @throws Problem `idempotency_key_missing` or `idempotency_key_invalid`, the latter also when it
 * could be a card's number and the partner may not send what only looks like one.
 */
export function readKey({ cardNumbersIn, raw }: FastifyRequest): IdempotencyKey {
  const key = readIdempotencyKey(raw.rawHeaders);
  if (!hasCardNumber(key) || mayLookLikeCard(cardNumbersIn, 'idempotency-key')) return key;
  throw new Problem(
    'idempotency_key_invalid',
    'The key looks like the number of a payment card, which is not kept here. Use a random one.',
  );
}

/** @throws Problem `invalid_request` that points at each text that could be a card's. */
export function refuseCardData({ cardNumbersIn }: FastifyRequest, body: JsonObject): void {
  const found = findCardData(body, cardNumbersIn);
  if (found.length > 0) throw incorrectFields(found);
}
