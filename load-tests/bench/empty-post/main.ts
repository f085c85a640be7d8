import type { AddressInfo } from 'node:net';
import { paymentRequestSchema } from '@triplock/contracts';
import { fastify } from 'fastify';
import { answerParent } from '../answer-parent.ts';
import type { EmptyPostState } from './empty-post.ts';

// The yardstick: what Node and Fastify take for a request that is parsed, validated by the same
// schema, and answered, with nothing in between. Fastify's defaults, and no log.
const app = fastify();
const answer = { id: '37585521-60c9-8d90-a37f-2e1b8a7081e6', object: 'payment', status: 'pending' };

app.post('/v1/payments', { schema: { body: paymentRequestSchema } }, async (_request, reply) => {
  reply.code(202);
  return answer;
});
await app.listen({ host: '127.0.0.1', port: 0 });
const { port } = app.server.address() as AddressInfo;

answerParent<object, EmptyPostState>(async () => {
  const { user, system } = process.cpuUsage();
  return { url: `http://127.0.0.1:${port}`, cpuMicros: user + system };
});
