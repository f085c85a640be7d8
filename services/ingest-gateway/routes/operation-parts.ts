import type { ProblemCode } from '@triplock/contracts';
import { problems } from './problem-responses.ts';

/** What the OpenAPI document says alike of payments and of refunds. */
type What = 'payment' | 'refund';

const schemaNames = { payment: 'Payment', refund: 'Refund' } as const;

/** The header of every request that takes effect once per key. */
export function idempotencyKeyHeader(what: What | 'rotation' | 'redelivery'): object {
  return {
    type: 'object',
    required: ['Idempotency-Key'],
    properties: {
      'Idempotency-Key': {
        type: 'string',
        description:
          `Names the ${what}, once per partner: 1 to 255 printable ASCII characters, bare or as a ` +
          'quoted structured-field string (both are the same key). Quote one that has a comma or ' +
          'a semicolon.',
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

/** The 202. */
export function acceptedResponse(what: What): object {
  return {
    description: 'Accepted, now or before; the fields of the request as sent.',
    headers: {
      Location: { type: 'string', description: `Where to read the ${what}.` },
      ...replayedHeader,
    },
    content: { 'application/json': { schema: { $ref: `Accepted${schemaNames[what]}#` } } },
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

/** The header by which a read waits. */
export function preferHeader(what: What): object {
  return {
    type: 'object',
    properties: {
      Prefer: {
        type: 'string',
        description:
          `\`wait=N\` (RFC 7240, N up to 30 seconds) answers when the ${what} is final or N is over. ` +
          'A malformed or larger one is ignored.',
      },
    },
  };
}

/** The 200 of a read. */
export function foundResponse(what: What): object {
  return {
    description: `The ${what}.`,
    headers: {
      'Preference-Applied': { type: 'string', description: 'The `wait` that was honoured.' },
    },
    content: { 'application/json': { schema: { $ref: `${schemaNames[what]}#` } } },
  };
}

/** The 200 of a list. */
export function pageResponse(what: What): object {
  return {
    description: 'A page.',
    content: {
      'application/json': {
        schema: {
          type: 'object',
          required: ['object', 'data', 'has_more'],
          properties: {
            object: { type: 'string', const: 'list' },
            data: { type: 'array', items: { $ref: `${schemaNames[what]}#` } },
            has_more: { type: 'boolean', description: 'whether there is a page behind this one' },
          },
          additionalProperties: false,
        },
      },
    },
  };
}
