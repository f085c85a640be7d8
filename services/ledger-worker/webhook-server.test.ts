import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request as ask, type ClientRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { test, type TestContext } from 'node:test';
import { createLogger, createMetrics } from '@triplock/runtime';
import { eventually, freePort } from '@triplock/testing';
import { workerMetrics, type ProviderEventOutcome } from './metrics.ts';
import { bodyBytesMax, serveWebhooks } from './webhook-server.ts';
import type { Worker } from './worker.ts';

/** The server with nobody behind it, and what it counts and logs. */
async function aServer(context: TestContext) {
  const metrics = workerMetrics(createMetrics('test'));
  const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
  const warn = context.mock.method(logger, 'warn');
  const port = await freePort();
  const receive = () => assert.fail('nothing was sent to its end');
  const server = await serveWebhooks({ metrics, logger } as Worker, {
    ...{ host: '127.0.0.1', port, receive },
  });
  context.after(() => server.close());
  const counted = (outcome: ProviderEventOutcome) => metrics.providerEvents.counted()[outcome] ?? 0;
  const address = { host: '127.0.0.1', port, method: 'POST', path: '/stripe/webhooks' };
  return { address, counted, warned: () => warn.mock.callCount() };
}

const statusOf = async (request: ClientRequest) => {
  const [answer] = (await once(request, 'response')) as [IncomingMessage];
  answer.resume();
  return answer.statusCode;
};

test('who breaks off in the middle is counted and makes no noise', async (context) => {
  const { address, counted, warned } = await aServer(context);
  const socket = connect(address.port, address.host);
  socket.write(`POST ${address.path} HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{`);
  // Its beginning has arrived when a request after it is answered.
  await fetch(`http://${address.host}:${address.port}/healthz`);
  socket.destroy();
  await eventually(async () => counted('aborted') === 1);
  assert.equal(warned(), 0);
});

test('who sends too much is refused, with a length and without', async (context) => {
  const { address, counted, warned } = await aServer(context);
  const whole = Buffer.alloc(16 * bodyBytesMax, ' ');
  const close = { connection: 'close' };
  for (const headers of [{}, { 'content-length': whole.length }, close]) {
    const request = ask({ ...address, headers });
    const status = statusOf(request);
    request.end(whole);
    assert.equal(await status, 413);
  }
  assert.deepEqual([counted('too-large'), warned()], [3, 0]);
});
