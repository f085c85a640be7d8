import { problemCodes, schemaNameOf, txnIdSchema, type ProblemCode } from '@triplock/contracts';
import type { TransactionKind } from '@triplock/payments';

/** What the OpenAPI document says alike of several routes. */
type What = TransactionKind;

/** The id in the path. */
export const byId = { type: 'object', required: ['id'], properties: { id: txnIdSchema } };

/**
 * The header's two forms, as `parseIdempotencyKey` reads them: bare, or a structured-field string.
 * White space around is no part of either.
 */
const bareKey = '[!#-+\\--:<-~]([ -+\\--:<-~]{0,253}[!-+\\--:<-~])?';
const quotedKey = '"([ !#-\\[\\]-~]|\\\\["\\\\]){1,255}"';
const keyForms = `^[ \\t]*(${bareKey}|${quotedKey})[ \\t]*$`;

/** The header of every request that takes effect once per key. */
export function idempotencyKeyHeader(
  what: What | 'rotation' | 'redelivery' | 'endpoint' | 'API key',
): object {
  return {
    type: 'object',
    required: ['Idempotency-Key'],
    properties: {
      'Idempotency-Key': {
        type: 'string',
        pattern: keyForms,
        description:
          `Names the ${what}, once per partner: 1 to 255 printable ASCII characters, bare or as a ` +
          'quoted structured-field string (both are the same key). Quote one that has a comma or ' +
          'a semicolon. One that looks like a card number is refused.',
      },
    },
  };
}

/** The header of an answer that was given before. */
export const replayedHeader = {
  'Idempotency-Replayed': {
    type: 'string',
    enum: ['true'],
    description: 'Present when this answers a repeated request.',
  },
};

/** The header of an answer that is to be asked for again. */
export const retryAfterHeader = {
  'Retry-After': { type: 'integer', format: 'int32', description: 'Seconds to wait.' },
};

/** The 202. */
export function acceptedResponse(what: What): object {
  return {
    description: 'Accepted, now or before; the fields of the request as sent.',
    headers: {
      Location: { type: 'string', description: 'Where to read it.' },
      ...replayedHeader,
    },
    content: { 'application/json': { schema: { $ref: `Accepted${schemaNameOf(what)}#` } } },
  };
}

/** What a request that takes effect once per key can be refused with. */
export function acceptProblems(...more: ProblemCode[]): Record<number, object> {
  return problems(
    'idempotency_key_missing',
    'idempotency_key_invalid',
    'invalid_request',
    'unauthorized',
    ...more,
    'request_timeout',
    'idempotency_key_in_use',
    'body_too_large',
    'unsupported_media_type',
    'idempotency_key_reused',
    'internal_error',
    'unavailable',
  );
}

/** The header by which a read waits, until it is final or something else. */
export function preferHeader(what: What, orElse = ''): object {
  return {
    type: 'object',
    properties: {
      Prefer: {
        type: 'string',
        description:
          `\`wait=N\` (RFC 7240, N up to 30 seconds) answers when the ${what} is final${orElse} or N is over. ` +
          'A malformed or larger one is ignored.',
      },
    },
  };
}

/** What a read by an id can be refused with. */
export const readProblems = problems(
  'invalid_request',
  'unauthorized',
  'not_found',
  'internal_error',
  'unavailable',
);

/** The 200 of a read. */
export function foundResponse(what: What): object {
  return {
    description: `The ${what}.`,
    headers: {
      'Preference-Applied': { type: 'string', description: 'The `wait` that was honoured.' },
    },
    content: { 'application/json': { schema: { $ref: `${schemaNameOf(what)}#` } } },
  };
}

/** The 200 of a list. */
export function pageResponse(what: What | 'dispute'): object {
  return {
    description: 'A page.',
    content: {
      'application/json': {
        schema: {
          type: 'object',
          required: ['object', 'data', 'has_more'],
          properties: {
            object: { type: 'string', const: 'list' },
            data: { type: 'array', items: { $ref: `${schemaNameOf(what)}#` } },
            has_more: { type: 'boolean', description: 'whether there is a page behind this one' },
          },
          additionalProperties: false,
        },
      },
    },
  };
}

/**
 * What the OpenAPI document says of refusals: one response per status; several codes of one status
 * share it. A route that authenticates can also answer 429.
 */
export function problems(...codes: ProblemCode[]): Record<number, object> {
  const all: ProblemCode[] = codes.includes('unauthorized') ? [...codes, 'rate_limited'] : codes;
  const byStatus = Map.groupBy(all, (code) => problemCodes[code].status);
  const responses = [...byStatus].map(([status, shared]): [number, object] => [
    status,
    {
      description: shared.map((code) => `\`${code}\`: ${problemCodes[code].title}.`).join(' '),
      ...headersOf(status),
      content: { 'application/problem+json': { schema: { $ref: 'Problem#' } } },
    },
  ]);
  return Object.fromEntries(responses);
}

function headersOf(status: number): { headers?: object } {
  if (status === 401 || status === 403)
    return { headers: { 'WWW-Authenticate': { type: 'string' } } };
  if (![409, 429, 503].includes(status)) return {};
  return { headers: retryAfterHeader };
}
