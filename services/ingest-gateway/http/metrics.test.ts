import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger, createMetrics } from '@triplock/runtime';
import { testAdmission } from '../test/gateway.ts';
import { gatewayMetrics, measureRequests } from './metrics.ts';
import { createHttpServer } from './server.ts';

test('every request is timed by the route that took it and never by its path', async (t) => {
  const registry = createMetrics('test');
  const app = await createHttpServer({
    logger: createLogger({ service: 'test', instance: 'test', level: 'silent' }),
    admission: testAdmission(async () => ({ outcome: 'refused' })),
    watch: measureRequests(gatewayMetrics(registry)),
    routes: (server) => {
      const config = { access: 'public' } as const;
      server.get('/things/:id', { config }, async (request, reply) => {
        if ((request.params as { id: string }).id === 'bug') throw new Error('a bug');
        return reply.type('application/json').send('{}');
      });
      server.get('/own', async (_request, reply) => reply.send(''));
    },
  });
  t.after(() => app.close());
  /** What was counted: method, route, class and how often. */
  const counts = async (): Promise<string[]> => {
    const text = await registry.getSingleMetricAsString('triplock_gateway_request_seconds');
    const lines = text.split('\n').filter((line) => line.includes('_seconds_count{'));
    return lines.map((line) => {
      const label = (name: string) => new RegExp(`${name}="([^"]*)"`).exec(line)?.[1];
      return `${label('method')} ${label('route')} ${label('status')} ${line.split(' ').at(-1)}`;
    });
  };
  const before = await counts();
  assert.ok(before.includes('GET /things/:id 5xx 0'));
  assert.ok(before.every((line) => line.endsWith(' 0')));

  for (const url of ['/things/1', '/things/2', '/things/bug', '/own', '/made/up', '/made-up']) {
    await app.inject({ url });
  }
  const grown = (await counts()).filter((line) => !line.endsWith(' 0'));
  assert.deepEqual(grown.sort(), [
    'GET /own 4xx 1',
    'GET /things/:id 2xx 2',
    'GET /things/:id 5xx 1',
    'any none 4xx 2',
  ]);
});
