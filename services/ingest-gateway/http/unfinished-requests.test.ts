import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { openRedisClaims } from '@triplock/claims';
import { createTestKeyspace, createTestRelay, eventually } from '@triplock/testing';
import { recoverLosses } from '../accept/loss-recovery.ts';
import { addTransactionRoutes } from '../routes/gateway-routes.ts';
import { admitByName, openTestGateway } from '../test/gateway.ts';
import { gatewaySettings, startGateway } from '../test/gateway-process.ts';
import { connectRaw, httpRequest, paymentRequest, startEdge } from '../test/http-edge.ts';
import { createHttpServer, httpLimits } from './server.ts';

const impatient = { headTimeoutMs: 200, requestTimeoutMs: 600, checkEveryMs: 20 };

test('a head that does not come in time is a 408, and the connection closes', async (t) => {
  const edge = await startEdge(t, { limits: impatient });
  for (const begun of ['', 'POST /v1/payments HTTP/1.1\r\nHost: ']) {
    const connection = edge.connect();
    connection.send(begun);
    const answer = await connection.answer();
    assert.equal(answer.status, 408);
    assert.equal(answer.headers['content-type'], 'application/problem+json');
    assert.match(answer.body, /"code":"request_timeout"/);
    assert.equal(await connection.ended, '');
  }
});

test('a body that does not come in time is a 408, and nothing is handled', async (t) => {
  const edge = await startEdge(t, { limits: impatient });
  const connection = edge.connect();
  connection.send(paymentRequest().subarray(0, -1));
  assert.equal((await connection.answer()).status, 408);
  assert.equal(await connection.ended, '');
  assert.deepEqual(edge.handled, []);
});

test('a body without an end is refused when it is too long and cut off when its time is up', async (t) => {
  const edge = await startEdge(t, { limits: impatient });
  const connection = edge.connect();
  const chunk = `10000\r\n${' '.repeat(65_536)}\r\n`;
  const chunked = { 'Content-Length': undefined, 'Transfer-Encoding': 'chunked' };
  connection.send(paymentRequest(chunked, chunk + chunk));
  assert.equal((await connection.answer()).status, 413);
  connection.send(chunk);
  await connection.ended;
  assert.deepEqual(edge.handled, []);
});

test('the limits are those that the interface promises', () => {
  assert.equal(httpLimits.headTimeoutMs, 10_000);
  assert.equal(httpLimits.requestTimeoutMs, 30_000);
  assert.equal(httpLimits.headBytesMax, 16_384);
  assert.equal(httpLimits.bodyBytesMax, 65_536);
});

test('a client that goes away in the middle leaves no trace, and the server lives on', async (t) => {
  const edge = await startEdge(t);
  for (const length of [1, 20, 150, -1]) {
    const connection = edge.connect();
    connection.send(paymentRequest().subarray(0, length));
    connection.destroy();
    await connection.ended;
  }
  assert.equal((await edge.exchange(httpRequest('GET /healthz'))).status, 200);
  assert.deepEqual(edge.handled, []);
});

const garbage: readonly [what: string, bytes: string | Buffer][] = [
  ['a TLS hello', Buffer.from('16030100c8010000c40303', 'hex')],
  ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['random bytes', Buffer.from(Array.from({ length: 512 }, (_, at) => (at * 197 + 3) % 256))],
  ['a method that is none', 'FROB /v1/payments HTTP/1.1\r\n\r\n'],
  ['a version that is none', 'GET / HTTP/9.9\r\n\r\n'],
  ['a header without a colon', 'GET / HTTP/1.1\r\nHost localhost\r\n\r\n'],
  ['NUL in a header', 'GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n'],
  ['no host', 'GET /healthz HTTP/1.1\r\n\r\n'],
  ['a length that is none', paymentRequest({ 'Content-Length': 'many' })],
  ['a negative length', paymentRequest({ 'Content-Length': '-1' })],
  ['two lengths', paymentRequest({ 'Content-Length': ['32', '3'] })],
  ['a length and chunks', paymentRequest({ 'Transfer-Encoding': 'chunked' })],
  ['a folded header', 'GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n'],
];

for (const [what, bytes] of garbage) {
  test(`${what} is a 400 at most, closes the connection, and the server lives on`, async (t) => {
    const edge = await startEdge(t);
    const connection = edge.connect();
    connection.send(bytes);
    const answered = await connection.ended;
    assert.match(answered, /^(HTTP\/1\.1 400 Bad Request\r\n|$)/);
    assert.doesNotMatch(answered, /\.ts|\.js|node_modules|HPE_/);
    assert.deepEqual(edge.handled, []);
    assert.equal((await edge.exchange(httpRequest('GET /healthz'))).status, 200);
  });
}

test('chunks that turn to garbage are never taken for a body', async (t) => {
  const edge = await startEdge(t);
  const connection = edge.connect();
  const chunked = { 'Content-Length': undefined, 'Transfer-Encoding': 'chunked' };
  connection.send(paymentRequest(chunked, '20\r\n{"amount":1250,"currency":"EUR"}\r\nxyz\r\n'));
  await connection.ended;
  assert.deepEqual(edge.handled, []);
});

test('garbage behind a payment at work gets no answer that could be taken for its own', async (t) => {
  const release = Promise.withResolvers<void>();
  const edge = await startEdge(t, { beforeAnswer: () => release.promise });
  const connection = edge.connect();
  connection.send(Buffer.concat([paymentRequest(), Buffer.from('\0garbage\r\n\r\n')]));
  assert.equal(await connection.ended, '');
  release.resolve();
});

test('closing lets a request at work finish and takes no new connection', async (t) => {
  const release = Promise.withResolvers<void>();
  const arrived = Promise.withResolvers<void>();
  const edge = await startEdge(t, {
    beforeAnswer: () => {
      arrived.resolve();
      return release.promise;
    },
  });
  const [idle, busy] = [edge.connect(), edge.connect()];
  idle.send(httpRequest('GET /healthz'));
  await idle.answer();
  busy.send(paymentRequest());
  await arrived.promise;
  const closed = edge.close();
  assert.equal(await idle.ended, '');
  await assert.rejects(edge.exchange(paymentRequest()));
  release.resolve();
  assert.equal((await busy.answer()).status, 202);
  await closed;
});

test('closing does not wait for those who never finish', async (t) => {
  const edge = await startEdge(t, { limits: { drainMs: 50 } });
  const stuck = ['', 'POST /v1/pay', paymentRequest().subarray(0, -1)].map((begun) => {
    const connection = edge.connect();
    connection.send(begun);
    return connection;
  });
  // Answered on a connection opened later, so the server has seen the others.
  await edge.exchange(httpRequest('GET /healthz'));
  await edge.close();
  for (const connection of stuck) await connection.ended;
});

test('while a store stands still, who comes later is refused before the claim, and served once it moves', async (t) => {
  const { post, relay, counted } = await edgeBehindRelay(t);
  assert.equal((await post('before')).status, 202);
  relay.freeze();
  // Those that came before it was noticed wait for their whole budget, and nobody knows of them.
  const waiting = ['a', 'b', 'c'].map((key) => post(key));
  const [first] = await Promise.all(waiting);
  assert.match(first!.text, /Send the same request with the same key again/);
  const shed = await post('later');
  assert.equal(shed.status, 503);
  assert.equal(shed.headers['retry-after'], '1');
  assert.match(shed.text, /Nothing was done with this one/);
  assert.deepEqual(await counted(), { accepted: '1', unavailable: '3', shed: '1' });
  await relay.restore();
  const served = await eventually(async () => {
    const answer = await post('later');
    return answer.status === 202 && answer;
  });
  assert.equal(served.headers['idempotency-replayed'], undefined);
});

test('beyond what a gateway gets through it refuses before the claim, no partner with less than its share, and goes on', async (t) => {
  const given = await gatewaySettings(t);
  // More than a partner may send.
  const unlimited = { RATE_LIMIT_PER_SECOND: '1000000', RATE_LIMIT_BURST: '1000000' };
  const gateway = startGateway(t, { ...given, settings: { ...given.settings, ...unlimited } });
  await gateway.ready();
  const port = Number(given.settings['HTTP_PORT']);
  const requestOf = (key: string, body: string) => {
    const headers = { Authorization: `Bearer ${given.apiKey}`, 'Idempotency-Key': key };
    return paymentRequest({ ...headers, 'Content-Length': `${body.length}` }, body);
  };
  const isShed = (body: string) => body.includes('Nothing was done with this one');
  let others = 0;
  let ended = false;
  /** Has forty requests wait all the time: with twenty of it, more than are done in 50 ms. */
  const flood = async (name: number): Promise<string[]> => {
    const connection = connectRaw(port);
    const shed: string[] = [];
    for (let turn = 0; !ended; turn += 1) {
      const keys = Array.from({ length: 40 }, (_, at) => `${name}-${turn}-${at}`);
      const requests = keys.map((key) => requestOf(key, '{"amount":1,"currency":"EUR"}'));
      connection.send(Buffer.concat(requests));
      for (const key of keys) {
        const answer = await connection.answer();
        if (answer.status === 202) continue;
        assert.equal(answer.status, 503, answer.body);
        assert.equal(answer.headers['retry-after'], '1');
        // What was let in before it was noticed may come to an end too late on a busy machine.
        if (isShed(answer.body)) shed.push(key);
      }
      if (shed.length > 20 && others >= 5) ended = true;
    }
    connection.destroy();
    return shed;
  };
  const floods = Array.from({ length: 20 }, (_, name) => flood(name).finally(() => (ended = true)));
  const other = { authorization: `Bearer ${given.otherApiKey}` };
  while (!ended) {
    const headers = { ...other, 'idempotency-key': `other-${others}` };
    const answer = await gateway.post({ amount: 1, currency: 'EUR' }, headers);
    assert.ok(!isShed(await answer.text()), 'one that has nothing else waiting is not shed');
    others += 1;
  }
  const shed = (await Promise.all(floods)).flat();
  t.diagnostic(`${shed.length} were shed, ${others} of another partner were not`);
  const metrics = await (await gateway.admin('/metrics')).text();
  const counted = /^triplock_gateway_payments_total\{outcome="shed".*\} (\d+)$/m.exec(metrics);
  assert.equal(Number(counted?.[1]), shed.length);
  // A claim would have bound the key to the first body.
  for (const key of [shed[0]!, shed.at(-1)!]) {
    const headers = { 'idempotency-key': key };
    const answer = await gateway.post({ amount: 2, currency: 'EUR' }, headers);
    assert.equal(answer.status, 202);
    assert.equal(answer.headers.get('idempotency-replayed'), null);
  }
});

/** The routes over real stores, Redis by a way that can be closed and with time for its answers. */
async function edgeBehindRelay(t: TestContext) {
  const keys = await createTestKeyspace(t);
  const relay = await createTestRelay(t, keys.url);
  const { gateway, metrics, offsets } = await openTestGateway(t);
  const { logger } = gateway;
  const way = { url: relay.url, namespace: keys.namespace, answerTimeoutMs: 60_000 };
  const claims = await openRedisClaims({ ...way, logger });
  t.after(() => claims.close());
  const recovery = recoverLosses({ ...gateway, claims, offsets });
  const app = await createHttpServer({
    logger,
    admission: admitByName,
    routes: (server) => addTransactionRoutes(server, { ...gateway, claims, recovery }),
  });
  t.after(() => app.close());
  const headers = { authorization: 'Bearer acme', 'content-type': 'application/json' };
  const post = async (key: string) => {
    const {
      statusCode,
      payload,
      headers: answered,
    } = await app.inject({
      method: 'POST',
      url: '/v1/payments',
      headers: { ...headers, 'idempotency-key': key },
      payload: '{"amount":1250,"currency":"EUR"}',
    });
    return { status: statusCode, headers: answered, text: payload };
  };
  const counted = async () => {
    const text = await metrics.metrics();
    const series = /^triplock_gateway_payments_total\{outcome="(\w+)".*\} ([1-9]\d*)$/gm;
    return Object.fromEntries(
      [...text.matchAll(series)].map(([, outcome, count]) => [outcome, count]),
    );
  };
  return { post, relay, counted };
}
