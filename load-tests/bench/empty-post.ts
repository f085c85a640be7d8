import type { AddressInfo } from 'node:net';
import { paymentRequestSchema } from '@triplock/contracts';
import { fastify } from 'fastify';
import { startHelper, type Helper } from './helper-process.ts';

/** Where the empty POST listens, and the CPU time that its process has used so far. */
export type EmptyPostState = { url: string; cpuMicros: number };

/** A Fastify server whose `POST /v1/payments` does nothing, in a process of its own. */
export function startEmptyPost(signal: AbortSignal): Promise<Helper<object, EmptyPostState>> {
  return startHelper('empty-post.ts', signal);
}

/**
 * The yardstick: what Node and Fastify take for a request that is parsed, validated by the same
 * schema, and answered, with nothing in between. Fastify's defaults, and no log.
 */
export async function openHelper(): Promise<() => Promise<EmptyPostState>> {
  const app = fastify();
  const id = '37585521-60c9-8d90-a37f-2e1b8a7081e6';
  const answer = { id, object: 'payment', status: 'pending' };
  app.post('/v1/payments', { schema: { body: paymentRequestSchema } }, async (_request, reply) => {
    reply.code(202);
    return answer;
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo;
  return async () => {
    const { user, system } = process.cpuUsage();
    return { url: `http://127.0.0.1:${port}`, cpuMicros: user + system };
  };
}
