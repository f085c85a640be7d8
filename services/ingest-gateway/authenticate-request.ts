import { Problem } from '@triplock/contracts';
import type { Authentication } from '@triplock/partners';
import type { FastifyRequest } from 'fastify';

// RFC 6750, section 2.1; schemes are case-insensitive (RFC 9110, section 11.1).
const bearerToken = /^bearer +([\w.~+/-]+=*)$/i;

/**
 * A hook that lets only known API keys in and sets `request.partnerId`. A missing, malformed or
 * unknown key gets the same 401, so that an answer tells nothing about keys.
 */
export function authenticateRequest(authenticate: (apiKey: string) => Promise<Authentication>) {
  return async (request: FastifyRequest): Promise<void> => {
    if (request.routeOptions.config.access === 'public') return;
    const [, apiKey] = bearerToken.exec(request.headers.authorization ?? '') ?? [];
    const authentication = apiKey === undefined ? undefined : await authenticate(apiKey);
    if (authentication?.outcome !== 'authenticated') {
      throw new Problem('unauthorized', 'Send a valid API key: Authorization: Bearer <api key>.', {
        headers: { 'www-authenticate': 'Bearer' },
      });
    }
    request.partnerId = authentication.partnerId;
  };
}
