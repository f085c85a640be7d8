import { Problem, readIdempotencyKey } from '@triplock/contracts';
import { fingerprint, type JsonValue } from '@triplock/payments';
import type { Database, Queryable } from '@triplock/postgres';
import { onceInTransaction } from './once-in-transaction.ts';

/** A request as a route gets it; Fastify's fits. */
export type RoutedRequest = {
  method: string;
  url: string;
  body: unknown;
  raw: { rawHeaders: readonly string[] };
};

/** What a route answers by; Fastify's fits. */
export type RoutedReply = {
  code(status: number): unknown;
  header(name: string, value: string): unknown;
  type(contentType: string): unknown;
  send(payload: Buffer): unknown;
};

/** An answer that is kept under the key, and given again byte for byte. */
export type KeptAnswer = { status: number; location?: string; body: JsonValue };

/** How a route remembers its answers. */
export type IdempotentRouteOptions<Request extends RoutedRequest> = {
  database: Database;
  /** Whose key it is: the route and the caller, so that callers never see each other's answers. */
  scopeOf(request: Request): string;
  /** How long a retry is answered; callers should be told. */
  keepMs: number;
};

/**
 * A Fastify handler for a mutation whose effect is in the database: an `Idempotency-Key` is
 * required (draft-ietf-httpapi-idempotency-key-header-07), and effect, key and answer commit
 * together.
 *
 * A retry gets the same status and bytes with `Idempotency-Replayed: true`. A second request with
 * the key waits for the first one, and holds a connection meanwhile. What the effect throws is not
 * kept and leaves the key free, except an EffectFailedError, which is thrown alike to every retry.
 *
 * @throws Problem `idempotency_key_missing`, `idempotency_key_invalid`, `idempotency_key_reused` or
 * `idempotency_key_in_use`, for the server's error handler.
 */
export function idempotentRoute<Request extends RoutedRequest>(
  options: IdempotentRouteOptions<Request>,
  effect: (tx: Queryable, request: Request) => Promise<KeptAnswer>,
): (request: Request, reply: RoutedReply) => Promise<unknown> {
  const { database, scopeOf, keepMs } = options;
  return async (request, reply) => {
    const step = {
      scope: scopeOf(request),
      key: readIdempotencyKey(request.raw.rawHeaders),
      fingerprint: fingerprintOf(request),
      keepMs,
    };
    const outcome = await onceInTransaction(database, step, (tx) => effect(tx, request));
    switch (outcome.outcome) {
      case 'done':
        return answer(reply, outcome.result);
      case 'replayed':
        reply.header('Idempotency-Replayed', 'true');
        return answer(reply, outcome.result);
      case 'reused':
        throw new Problem('idempotency_key_reused', 'Send a new key for another request.');
      case 'in-flight': {
        const headers = { 'Retry-After': `${Math.ceil(outcome.leaseLeftMs / 1_000)}` };
        throw new Problem('idempotency_key_in_use', 'Try again later.', { headers });
      }
      default:
        return outcome satisfies never;
    }
  };
}

function answer(reply: RoutedReply, { status, location, body }: KeptAnswer): unknown {
  reply.code(status);
  reply.type('application/json');
  if (location !== undefined) reply.header('Location', location);
  // As bytes, because to a text Fastify would add a charset, which this media type does not have.
  return reply.send(Buffer.from(JSON.stringify(body)));
}

function fingerprintOf({ method, url, body }: RoutedRequest): string {
  return fingerprint({ method, path: url, body: (body ?? null) as JsonValue });
}
