import { Problem } from '@triplock/contracts';
import type { FastifyRequest } from 'fastify';

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
