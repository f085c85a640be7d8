import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { openTriplock } from './triplock-client.ts';

/** A gateway in trouble, and a client that a signal ends. */
async function aClient(
  t: TestContext,
  answer: (request: IncomingMessage, response: ServerResponse) => void,
) {
  const server = createServer(answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const controller = new AbortController();
  const { signal } = controller;
  const triplock = openTriplock({ gateways: [`http://127.0.0.1:${port}`], apiKey: 'key', signal });
  return { triplock, interrupt: () => controller.abort() };
}

const limit = { timeout: 20_000 };
const payment = { key: 'order:1:pay', body: { amount: 1, currency: 'EUR' } };

test('an interruption ends a request that has no answer, and none follows it', limit, async (t) => {
  let requests = 0;
  const { triplock, interrupt } = await aClient(t, () => {
    requests += 1;
    interrupt();
  });
  await assert.rejects(triplock.untilFinal('/v1/payments/1'), { name: 'AbortError' });
  assert.equal(requests, 1);
});

test('an interruption ends the wait between two requests', limit, async (t) => {
  let requests = 0;
  const { triplock, interrupt } = await aClient(t, (_request, response) => {
    requests += 1;
    response.writeHead(503, { 'retry-after': '60' }).end(() => setImmediate(interrupt));
  });
  await assert.rejects(triplock.post('/v1/payments', payment), { name: 'AbortError' });
  assert.equal(requests, 1);
});

test('an answer that breaks off is asked for again under the same key', limit, async (t) => {
  const keys: unknown[] = [];
  const shown = { id: '1', status: 'pending' };
  const { triplock } = await aClient(t, (request, response) => {
    keys.push(request.headers['idempotency-key']);
    if (keys.length > 1) return void response.end(JSON.stringify(shown));
    response.writeHead(202, { 'content-length': '100' }).write('{"id":');
    setImmediate(() => response.destroy());
  });
  assert.deepEqual(await triplock.post('/v1/payments', payment), shown);
  assert.deepEqual(keys, [payment.key, payment.key]);
});
