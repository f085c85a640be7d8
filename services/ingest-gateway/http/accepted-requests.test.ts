import assert from 'node:assert/strict';
import { test } from 'node:test';
import { currentApiVersion } from '@triplock/contracts';
import { createLogger, createMetrics } from '@triplock/runtime';
import { testAdmission } from '../test/gateway.ts';
import { apiKey, httpRequest, paymentRequest, startEdge, type Edge } from '../test/http-edge.ts';
import { gatewayMetrics, measureRequests } from './metrics.ts';
import { createHttpServer } from './server.ts';

const body = { amount: 1250, currency: 'EUR' };
const text = JSON.stringify(body);

const forms: readonly [what: string, request: Buffer][] = [
  ['the usual form', paymentRequest()],
  ['a quoted key', paymentRequest({ 'Idempotency-Key': '"order-1001"' })],
  ['white space around the key', paymentRequest({ 'Idempotency-Key': '  order-1001\t ' })],
  ['the scheme in small letters', paymentRequest({ Authorization: `bearer ${apiKey}` })],
  ['the scheme in capitals', paymentRequest({ Authorization: `BEARER  ${apiKey}` })],
  ['a charset of utf-8', paymentRequest({ 'Content-Type': 'application/json; charset=utf-8' })],
  ['a quoted charset', paymentRequest({ 'Content-Type': 'Application/JSON;charset="UTF-8"' })],
  ['another parameter', paymentRequest({ 'Content-Type': 'application/json; v=1;' })],
  ['identity as encoding', paymentRequest({ 'Content-Encoding': 'identity' })],
  ['a body in white space', paymentRequest({}, `\r\n ${text}\t`)],
  ['a body of exactly 64 KiB', paymentRequest({}, text.padEnd(65_536))],
  ['an absolute target', paymentRequestTo('http://localhost/v1/payments')],
  ['a query', paymentRequestTo('/v1/payments?a=b')],
  ['an expectation that nobody knows', paymentRequest({ Expect: 'fireworks' })],
];

test('every form that the interface allows is the same payment', async (t) => {
  const edge = await startEdge(t);
  for (const [what, request] of forms) {
    const answer = await edge.exchange(request);
    assert.equal(answer.status, 202, `${what}: ${answer.body}`);
    const handled = edge.handled.pop();
    assert.deepEqual(handled, { partnerId: 'acme', key: 'order-1001', body }, what);
  }
});

test('a body in chunks is put together, even when a character is cut in two', async (t) => {
  const edge = await startEdge(t);
  const connection = edge.connect();
  const whole = Buffer.from('{"amount":1250,"currency":"EUR","reference":"\u20ac"}');
  const cut = whole.indexOf(Buffer.from('\u20ac')) + 1;
  connection.send(
    paymentRequest({ 'Content-Length': undefined, 'Transfer-Encoding': 'chunked' }, ''),
  );
  for (const piece of [whole.subarray(0, cut), whole.subarray(cut)]) {
    connection.send(`${piece.length.toString(16)}\r\n`);
    connection.send(piece);
    connection.send('\r\n');
  }
  connection.send('0\r\n\r\n');
  assert.equal((await connection.answer()).status, 202);
  assert.deepEqual(edge.handled[0]?.body, { ...body, reference: '\u20ac' });
});

test('a client that waits for a 100 gets it once its head is accepted', async (t) => {
  const edge = await startEdge(t);
  const connection = edge.connect();
  const request = paymentRequest({ Expect: '100-continue' });
  const bodyStart = request.indexOf('\r\n\r\n') + 4;
  connection.send(request.subarray(0, bodyStart));
  assert.equal((await connection.answer()).status, 100);
  connection.send(request.subarray(bodyStart));
  assert.equal((await connection.answer()).status, 202);
});

test('a client that waits for a 100 with a head that is refused gets the refusal instead', async (t) => {
  const edge = await startEdge(t);
  const heads = [
    [{ Authorization: undefined }, 401],
    [{ 'Content-Type': 'text/plain' }, 415],
    [{ 'Content-Length': '65537' }, 413],
  ] as const;
  for (const [headers, status] of heads) {
    const connection = edge.connect();
    const request = paymentRequest({ Expect: '100-continue', ...headers });
    connection.send(request.subarray(0, request.indexOf('\r\n\r\n') + 4));
    assert.equal((await connection.answer()).status, status);
    assert.equal(await connection.ended, '');
  }
});

test('a connection serves request after request, also after a refusal with a body', async (t) => {
  const edge = await startEdge(t);
  const connection = edge.connect();
  for (const [request, status] of [
    [paymentRequest(), 202],
    [paymentRequest({ Authorization: undefined }, ' '.repeat(200_000)), 401],
    [paymentRequest({}, ' '.repeat(200_000)), 413],
    [paymentRequest({}, '{'), 400],
    [httpRequest('GET /nowhere'), 404],
    [paymentRequest(), 202],
  ] as const) {
    connection.send(request);
    assert.equal((await connection.answer()).status, status);
  }
});

test('requests sent without waiting are answered in their order', async (t) => {
  const edge = await startEdge(t);
  const connection = edge.connect();
  connection.send(
    Buffer.concat([httpRequest('GET /healthz'), paymentRequest(), httpRequest('GET /nowhere')]),
  );
  const statuses = [];
  for (let each = 0; each < 3; each += 1) statuses.push((await connection.answer()).status);
  assert.deepEqual(statuses, [200, 202, 404]);
});

test('health and the OpenAPI document need no API key', async (t) => {
  const edge = await startEdge(t);
  for (const path of ['/healthz', '/openapi.json']) {
    const answer = await edge.exchange(httpRequest(`GET ${path}`, { Authorization: undefined }));
    assert.equal(answer.status, 200);
    assert.match(answer.headers['content-type']!, /^application\/json/);
  }
});

test('HEAD gives the head of GET and no body', async (t) => {
  const edge = await startEdge(t);
  const connection = edge.connect();
  connection.send(httpRequest('HEAD /healthz', { Connection: 'close' }));
  const rest = await connection.ended;
  assert.match(rest, /^HTTP\/1\.1 200 OK\r\n/);
  assert.ok(rest.endsWith('\r\n\r\n'));
});

function paymentRequestTo(target: string): Buffer {
  const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': 'order-1001' };
  return httpRequest(`POST ${target}`, headers, text);
}

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

test('every answer names its request, by a name of its own, and its type without a charset for JSON', async (t) => {
  const edge = await startEdge(t);
  const requests = [
    paymentRequest(),
    httpRequest('GET /healthz', { Authorization: undefined }),
    httpRequest('GET /docs', { Authorization: undefined }),
    paymentRequest({ Authorization: undefined }),
    httpRequest('GET /nowhere'),
  ];
  const answers = await Promise.all(requests.map((request) => edge.exchange(request)));
  const ids = answers.map(({ headers }) => headers['request-id']);
  for (const id of ids) assert.match(id!, /^[\da-f-]{36}$/);
  const types = answers.map(({ headers }) => headers['content-type']);
  const [json, problem, html] = [
    'application/json',
    'application/problem+json',
    'text/html; charset=utf-8',
  ];
  assert.deepEqual(types, [json, json, html, problem, problem]);
  assert.equal(new Set(ids).size, requests.length);
});

test('every answer says which version it is in, asked for or not', async (t) => {
  const edge = await startEdge(t);
  const requests = [
    paymentRequest(),
    paymentRequest({ 'Triplock-Version': currentApiVersion }),
    httpRequest('GET /healthz', { Authorization: undefined, 'Triplock-Version': 'of whatever' }),
    httpRequest('GET /openapi.json', { Authorization: undefined }),
    httpRequest('GET /bug'),
    httpRequest('GET /nowhere'),
    'no HTTP at all\r\n\r\n',
  ];
  const answers = await Promise.all(requests.map((request) => edge.exchange(request)));
  const versions = answers.map(({ headers }) => headers['triplock-version']);
  assert.deepEqual(versions, Array(requests.length).fill(currentApiVersion));
  const statuses = answers.map(({ status }) => status);
  assert.deepEqual(statuses, [202, 202, 200, 200, 500, 404, 400]);
});

test('a trusted proxy names requests, nobody else does, and the log has the same name', async (t) => {
  const lines: Record<string, unknown>[] = [];
  const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
  const noted = Object.assign(logger, {
    error: (line: Record<string, unknown>) => lines.push(line),
  });
  const open = await startEdge(t, { logger: noted });
  const proxied = await startEdge(t, { logger: noted, trustedProxies: ['127.0.0.0/8'] });
  const elsewhere = await startEdge(t, { trustedProxies: ['10.0.0.0/8', '2001:db8::/32'] });
  const long = 'x'.repeat(128);
  const cases: [Edge, string | string[], string?][] = [
    [proxied, 'edge-7/4f2a.1', 'edge-7/4f2a.1'],
    [proxied, long, long],
    [open, 'edge-7'],
    [elsewhere, 'edge-7'],
    [proxied, `${long}x`],
    [proxied, ['a', 'b']],
    [proxied, 'two words'],
    [proxied, '4242424242424242'],
    [proxied, '"quoted"'],
  ];
  for (const [edge, sent, kept] of cases) {
    const answer = await edge.exchange(httpRequest('GET /bug', { 'Request-Id': sent }));
    const id = answer.headers['request-id']!;
    if (kept === undefined) assert.match(id, /^[\da-f-]{36}$/, String(sent));
    else assert.equal(id, kept);
    assert.equal((JSON.parse(answer.body) as { request_id: string }).request_id, id);
    if (edge !== elsewhere) assert.equal(lines.at(-1)?.['requestId'], id);
  }
});
