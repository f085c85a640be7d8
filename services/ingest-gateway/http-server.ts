import type { Authentication } from '@triplock/partners';
import type { Logger } from '@triplock/runtime';
import type { FastifyInstance } from 'fastify';
import './http-types.ts';

/** What the HTTP edge needs. It knows nothing of payments. */
export type HttpServerOptions = {
  logger: Logger;
  /** Reject with a `Problem('unavailable', …)` when it cannot be known whose key it is. */
  authenticate(apiKey: string): Promise<Authentication>;
  /**
   * Adds the routes. A handler gets `request.partnerId` and, for POST, the strictly parsed body as
   * `request.body` (a JsonValue; `undefined` when there was none), throws `Problem` to refuse, and
   * gives its answer as text: `reply.code(202).type('application/json').send(text)`.
   */
  routes(app: FastifyInstance): void;
};

/**
 * Makes the gateway's HTTP server; `await app.listen({ host, port })` opens it and `await
 * app.close()` lets requests under way finish.
 */
export async function createHttpServer(_options: HttpServerOptions): Promise<FastifyInstance> {
  throw new Error('not built');
}
