import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request as ask, type ClientRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { test, type TestContext } from 'node:test';
import { createLogger, createMetrics } from '@triplock/runtime';
import { eventually, freePort } from '@triplock/testing';
import { workerMetrics, type ProviderEventWord } from './metrics.ts';
import { bodyBytesMax, serveWebhooks } from './serve-webhooks.ts';

/** The door with nobody behind it, and what it writes down. */
async function aDoor(context: TestContext) {
  const metrics = workerMetrics(createMetrics('test'));
  const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
  const warn = context.mock.method(logger, 'warn');
  const port = await freePort();
  const hear = () => assert.fail('nothing was sent to its end');
  const server = await serveWebhooks({ host: '127.0.0.1', port, hear, metrics, logger });
  context.after(() => server.close());
  const counted = (outcome: ProviderEventWord) => metrics.providerEvents.counted()[outcome] ?? 0;
  const place = { host: '127.0.0.1', port, method: 'POST', path: '/stripe/webhooks' };
  return { place, counted, warned: () => warn.mock.callCount() };
}

const statusOf = async (request: ClientRequest) => {
  const [answer] = (await once(request, 'response')) as [IncomingMessage];
  answer.resume();
  return answer.statusCode;
};

test('who breaks off in the middle is counted and makes no noise', async (context) => {
  const { place, counted, warned } = await aDoor(context);
  const socket = connect(place.port, place.host);
  socket.write(`POST ${place.path} HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{`);
  // Its beginning has arrived when a request after it is answered.
  await fetch(`http://${place.host}:${place.port}/healthz`);
  socket.destroy();
  await eventually(async () => counted('aborted') === 1);
  assert.equal(warned(), 0);
});

test('who sends too much is told so, with a length and without', async (context) => {
  const { place, counted, warned } = await aDoor(context);
  const whole = Buffer.alloc(16 * bodyBytesMax, ' ');
  const close = { connection: 'close' };
  for (const headers of [{}, { 'content-length': whole.length }, close]) {
    const request = ask({ ...place, headers });
    const status = statusOf(request);
    request.end(whole);
    assert.equal(await status, 413);
  }
  assert.deepEqual([counted('too-large'), warned()], [3, 0]);
});
