import { problemCodes, txnIdSchema, type ProblemCode } from '@triplock/contracts';
import type { FastifySchema } from 'fastify';

/** What the OpenAPI document says of `POST /v1/payments`; give it to the route as its `schema`. */
export const createPaymentOperation: FastifySchema = {
  operationId: 'createPayment',
  summary: 'Accept a payment',
  description:
    'Takes effect once per key. Repeat it with the same key and body as often as you like: the ' +
    'answer is the same, byte for byte, with `Idempotency-Replayed: true`.',
  headers: {
    type: 'object',
    required: ['Idempotency-Key'],
    properties: {
      'Idempotency-Key': {
        type: 'string',
        description:
          'Names the payment, once per partner: 1 to 255 printable ASCII characters, bare or as a ' +
          'quoted structured-field string (both are the same key). Quote one that has a comma or ' +
          'a semicolon.',
      },
    },
  },
  body: { $ref: 'PaymentRequest#' },
  response: {
    202: {
      description: 'Accepted, now or before; the fields of the request as sent.',
      headers: {
        Location: { type: 'string', description: 'Where to read the payment.' },
        'Idempotency-Replayed': {
          type: 'string',
          enum: ['true'],
          description: 'Present when this answers a repeated request.',
        },
      },
      content: { 'application/json': { schema: { $ref: 'AcceptedPayment#' } } },
    },
    ...problems(
      'idempotency_key_missing',
      'idempotency_key_invalid',
      'invalid_request',
      'unauthorized',
      'request_timeout',
      'idempotency_key_in_use',
      'body_too_large',
      'unsupported_media_type',
      'idempotency_key_reused',
      'internal_error',
      'unavailable',
    ),
  },
};

/** What the OpenAPI document says of `GET /v1/payments/{id}`; give it to the route as its `schema`. */
export const readPaymentOperation: FastifySchema = {
  operationId: 'readPayment',
  summary: 'Read a payment',
  description: 'An accepted payment is there at once, `pending` until the ledger has settled it.',
  params: { type: 'object', required: ['id'], properties: { id: txnIdSchema } },
  headers: {
    type: 'object',
    properties: {
      Prefer: {
        type: 'string',
        description:
          '`wait=N` (RFC 7240, N up to 30 seconds) answers when the payment is final or N is over. ' +
          'A malformed or larger one is ignored.',
      },
    },
  },
  response: {
    200: {
      description: 'The payment.',
      headers: {
        'Preference-Applied': { type: 'string', description: 'The `wait` that was honoured.' },
      },
      content: { 'application/json': { schema: { $ref: 'Payment#' } } },
    },
    ...problems('invalid_request', 'unauthorized', 'not_found', 'internal_error', 'unavailable'),
  },
};

/** One response per status; several codes of one status share it. */
function problems(...codes: ProblemCode[]): Record<number, object> {
  const byStatus = Map.groupBy(codes, (code) => problemCodes[code].status);
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
  if (status === 401) return { headers: { 'WWW-Authenticate': { type: 'string' } } };
  if (status !== 409 && status !== 503) return {};
  return { headers: { 'Retry-After': { type: 'integer', description: 'Seconds to wait.' } } };
}
