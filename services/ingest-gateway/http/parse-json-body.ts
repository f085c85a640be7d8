import { parseStrictJson, Problem } from '@triplock/contracts';
import type { JsonValue } from '@triplock/payments';
import type { FastifyRequest } from 'fastify';

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
