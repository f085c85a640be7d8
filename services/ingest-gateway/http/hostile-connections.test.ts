import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callerAddress } from '@triplock/runtime';
import { eventually } from '@triplock/testing';
import { httpRequest, paymentRequest, startEdge, type Edge } from '../test/http-edge.ts';
import { httpLimits, type HttpLimits } from './server.ts';

const crowd = 500;
const smuggled = 'POST /v1/payments HTTP/1.1\r\nHost: smuggled\r\n\r\n';
const none = { 'Content-Length': undefined };

/** Requests of which two readers could see two different ends. */
const ambiguous: readonly [what: string, request: Buffer][] = [
  [
    'chunks after a length',
    paymentRequest({ 'Transfer-Encoding': 'chunked' }, `0\r\n\r\n${smuggled}`),
  ],
  [
    'a length after chunks',
    paymentRequest(
      { ...none, 'Transfer-Encoding': 'chunked', 'content-length': '5' },
      `0\r\n\r\n${smuggled}`,
    ),
  ],
  ['two different lengths', paymentRequest({ 'Content-Length': ['5', '32'] })],
  ['a list of lengths', paymentRequest({ 'Content-Length': '32, 32' })],
  ['a length with a sign', paymentRequest({ 'Content-Length': '+32' })],
  ['a length in hexadecimal', paymentRequest({ 'Content-Length': '0x20' })],
  ['a length with a space in it', paymentRequest({ 'Content-Length': '3 2' })],
  ['a length beyond all numbers', paymentRequest({ 'Content-Length': '9'.repeat(30) })],
  ['chunked and something after it', coded('chunked, identity')],
  ['an encoding that nobody knows', coded('xchunked')],
  ['chunked behind a vertical tab', coded('\u000bchunked')],
  ['chunked twice', coded(['chunked', 'chunked'])],
  ['chunked beside an unknown one', coded(['chunked', 'cow'])],
  ['a space before the colon', withLine('Transfer-Encoding : chunked')],
  ['a folded encoding', withLine('Transfer-Encoding:\r\n chunked')],
  ['a header of no name', withLine(': chunked')],
  ['a carriage return in a header', withLine('X: a\rTransfer-Encoding: chunked')],
  ['a line that ends in a carriage return alone', withLine('X: a\rY: b')],
  ['a chunk with a sign', chunk('+20')],
  ['a chunk in 0x', chunk('0x20')],
  ['a chunk beyond all numbers', chunk('f'.repeat(17))],
  ['a chunk that ends too early', chunk('2')],
];

for (const [what, request] of ambiguous) {
  test(`${what}: nothing is handled, and what follows is no request`, async (t) => {
    const edge = await startEdge(t);
    const connection = edge.connect();
    connection.send(Buffer.concat([request, Buffer.from(smuggled), paymentRequest()]));
    const answered = await connection.ended;
    const statuses = [...answered.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => status);
    assert.ok(statuses.length <= 1, answered);
    assert.match(statuses[0] ?? '400', /^4\d\d$/);
    assert.deepEqual(edge.handled, []);
    await assertServed(edge);
  });
}

test('five hundred idle connections keep no partner out', async (t) => {
  const edge = await startEdge(t);
  const idle = Array.from({ length: crowd }, () => edge.connect());
  for (const connection of idle) connection.send(httpRequest('GET /healthz'));
  for (const connection of idle) assert.equal((await connection.answer()).status, 200);
  await assertServed(edge);
  // They are welcome, not just tolerated: each can go on.
  idle.at(-1)!.send(paymentRequest());
  assert.equal((await idle.at(-1)!.answer()).status, 202);
});

test('five hundred half-sent heads and bodies keep no partner out, and end when their time is up', async (t) => {
  const edge = await startEdge(t, {
    limits: { headTimeoutMs: 3_000, requestTimeoutMs: 3_000, checkEveryMs: 50 },
  });
  const begun = [
    '',
    'POST /v1/pay',
    paymentRequest().subarray(0, 60),
    paymentRequest().subarray(0, -1),
  ];
  const slow = Array.from({ length: crowd }, (_, at) => {
    const connection = edge.connect();
    connection.send(begun[at % begun.length]!);
    return connection;
  });
  for (let payment = 0; payment < 20; payment += 1) await assertServed(edge);
  await Promise.all(slow.map(({ ended }) => ended));
  await assertServed(edge);
  assert.equal(edge.handled.length, 21);
});

test('floods of headers are refused and keep no partner out', async (t) => {
  const edge = await startEdge(t);
  const many = Object.fromEntries(Array.from({ length: 4_000 }, (_, at) => [`X-${at}`, '1']));
  const endless = httpRequest('GET /healthz', { 'X-A': 'a'.repeat(1_000_000) });
  const floods = [
    httpRequest('GET /healthz', many),
    endless,
    httpRequest('GET /healthz', { ['X'.repeat(20_000)]: '1' }),
  ];
  const refused = Array.from({ length: 60 }, async (_, at) => {
    const flood = floods[at % floods.length]!;
    const asked = edge.exchange(flood).then(({ status }) => status);
    // Who still writes when the connection is cut off may not find the time to read why.
    return flood === endless ? asked.catch(() => 431) : asked;
  });
  await assertServed(edge);
  assert.deepEqual(new Set(await Promise.all(refused)), new Set([431]));
  await assertServed(edge);
});

test('as many requests as may wait on a connection are answered in order, and of more none is handled', async (t) => {
  const edge = await startEdge(t);
  const { unansweredMax } = httpLimits;
  const connection = edge.connect();
  const lines = Array.from({ length: unansweredMax }, (_, at) =>
    at % 2 === 0 ? 'GET /healthz' : 'GET /no',
  );
  for (const round of [1, 2]) {
    connection.send(Buffer.concat(lines.map((line) => httpRequest(line))));
    for (const line of lines) {
      const { status } = await connection.answer();
      assert.equal(status, line === 'GET /no' ? 404 : 200, `${round}`);
    }
  }
  const behind = Array.from({ length: 100 }, () => paymentRequest());
  connection.send(Buffer.concat([...lines.map((line) => httpRequest(line)), ...behind]));
  for (const line of lines) {
    assert.equal((await connection.answer()).status, line === 'GET /no' ? 404 : 200);
  }
  assert.equal(await connection.ended, '');
  assert.deepEqual(edge.handled, []);
});

test('after twenty refusals in a row one more is answered, and the connection ends', async (t) => {
  const edge = await startEdge(t);
  const stranger = { Authorization: 'Bearer nobody' };
  for (const request of [
    httpRequest('GET /no'),
    paymentRequest(stranger),
    httpRequest('PUT /docs'),
  ]) {
    const connection = edge.connect();
    const ask = () => (connection.send(request), connection.answer());
    for (let refused = 0; refused < 20; refused += 1) {
      const { status, headers } = await ask();
      assert.ok(status >= 400 && status < 500);
      assert.notEqual(headers['connection'], 'close');
    }
    assert.equal((await ask()).headers['connection'], 'close');
    assert.equal(await connection.ended, '');
  }
});

const twoHosts: readonly [what: string, hosts: string[]][] = [
  ['two hosts', ['gateway.example', 'other.example']],
  ['one host twice', ['gateway.example', 'gateway.example']],
  ['a host and none', ['gateway.example', '']],
];

for (const [what, hosts] of twoHosts) {
  test(`${what}: a 400, whichever of them is meant`, async (t) => {
    const edge = await startEdge(t);
    for (const names of [['Host'], ['Host', 'hOsT']]) {
      const lines = names.length === 1 ? { Host: hosts } : { Host: hosts[0], hOsT: hosts[1] };
      const { status, body } = await edge.exchange(paymentRequest(lines));
      assert.equal(status, 400);
      assert.match(body, /one host header/);
    }
    assert.deepEqual(edge.handled, []);
  });
}

test('two keys of partners: a 400, whichever of them is meant', async (t) => {
  const edge = await startEdge(t);
  const headers = { Authorization: ['Bearer tl_test_acme_one', 'Bearer tl_test_globex_two'] };
  const { status, body } = await edge.exchange(paymentRequest(headers));
  assert.equal(status, 400);
  assert.match(body, /one authorization header/);
  assert.deepEqual(edge.handled, []);
});

test('for one more connection than there may be, the one makes way that has long sent nothing whole', async (t) => {
  const release = Promise.withResolvers<void>();
  const arrived = Promise.withResolvers<void>();
  const beforeAnswer = () => (arrived.resolve(), release.promise);
  const edge = await startEdge(t, { limits: { connectionsMax: 50 }, beforeAnswer });
  const busy = edge.connect();
  busy.send(paymentRequest());
  await arrived.promise;
  const halfSent = Array.from({ length: crowd }, (_, at) => {
    const connection = edge.connect();
    connection.send(paymentRequest().subarray(0, at % 2 === 0 ? 60 : -1));
    return connection;
  });
  // The oldest of them are gone before their time is up, and whoever sends a whole request gets in.
  await Promise.all(halfSent.slice(0, crowd - 50).map(({ ended }) => ended));
  const served = edge.exchange(paymentRequest());
  release.resolve();
  assert.equal((await served).status, 202);
  assert.equal((await busy.answer()).status, 202);
});

test('when every connection is at work, who comes is told to come again', async (t) => {
  const release = Promise.withResolvers<void>();
  const edge = await startEdge(t, {
    limits: { connectionsMax: 3 },
    beforeAnswer: () => release.promise,
  });
  const busy = [edge.connect(), edge.connect(), edge.connect()];
  for (const connection of busy) connection.send(paymentRequest());
  await eventually(async () => edge.handled.length === busy.length);
  const { status, headers, body } = await edge.connect().answer();
  assert.deepEqual([status, headers['retry-after']], [503, '1']);
  assert.equal((JSON.parse(body) as { request_id: string }).request_id, headers['request-id']);
  assert.match(body, /"code":"unavailable"/);
  release.resolve();
  for (const connection of busy) assert.equal((await connection.answer()).status, 202);
  assert.equal((await edge.exchange(paymentRequest())).status, 202);
});

/** What a gateway with so few requests under way says to one more. */
const shares: readonly [limits: Partial<HttpLimits>, code: string, status: number][] = [
  [{ requestsMax: 2 }, 'unavailable', 503],
  [{ perPartnerMax: 2 }, 'rate_limited', 429],
];

for (const [limits, code, status] of shares) {
  test(`${Object.keys(limits)[0]}: one request more is a ${status}, until one is answered or given up`, async (t) => {
    const release = Promise.withResolvers<void>();
    const edge = await startEdge(t, { limits, beforeAnswer: () => release.promise });
    const [first, second] = [edge.connect(), edge.connect()];
    first.send(paymentRequest());
    // A body that does not come takes a share too.
    second.send(paymentRequest().subarray(0, -1));
    const refused = await eventually(async () => {
      const answer = await edge.exchange(httpRequest('GET /v1/payments/none'));
      return answer.status === status && answer;
    });
    assert.equal(refused.headers['retry-after'], '1');
    assert.match(refused.body, new RegExp(`"code":"${code}"`));
    assert.equal((await edge.exchange(httpRequest('GET /healthz'))).status, 200);
    second.destroy();
    await eventually(
      async () => (await edge.exchange(httpRequest('GET /v1/payments/none'))).status === 200,
    );
    release.resolve();
    assert.equal((await first.answer()).status, 202);
  });
}

test('who sends on one connection without waiting is answered in order, and what is too much is a 429', async (t) => {
  const release = Promise.withResolvers<void>();
  const edge = await startEdge(t, {
    limits: { perConnectionMax: 4 },
    beforeAnswer: () => release.promise,
  });
  const connection = edge.connect();
  connection.send(Buffer.concat(Array.from({ length: 10 }, () => paymentRequest())));
  await eventually(async () => edge.handled.length === 4);
  assert.equal((await edge.exchange(httpRequest('GET /v1/payments/none'))).status, 200);
  release.resolve();
  const statuses = [];
  for (let n = 0; n < 10; n += 1) statuses.push((await connection.answer()).status);
  assert.deepEqual(statuses, [...Array(4).fill(202), ...Array(6).fill(429)]);
  connection.send(paymentRequest());
  assert.equal((await connection.answer()).status, 202);
});

test('strangers use up no share of partners', async (t) => {
  const edge = await startEdge(t, { limits: { requestsMax: 1, perPartnerMax: 1 } });
  const stranger = { Authorization: 'Bearer nobody' };
  const strangers = Array.from({ length: 50 }, () => edge.connect());
  for (const connection of strangers) connection.send(paymentRequest(stranger).subarray(0, -1));
  for (const connection of strangers) assert.equal((await connection.answer()).status, 401);
  await assertServed(edge);
});

const from = (ip: string) => callerAddress({ ip, socket: { remoteAddress: '192.0.2.1' } });

test('an IPv4 address is one caller, however it is written', () => {
  assert.equal(from('203.0.113.9'), '203.0.113.9');
  assert.equal(from('::ffff:203.0.113.9'), '203.0.113.9');
});

test('an IPv6 network of 64 bits is one caller', () => {
  const one = from('2001:db8:0:7::1');
  for (const same of ['2001:DB8:0:7:ffff::', '2001:db8::7:1:2:3:4', '2001:db8:0:7:0:0:0:9%eth0']) {
    assert.equal(from(same), one, same);
  }
  assert.notEqual(from('2001:db8:0:8::1'), one);
  assert.equal(from('::1'), '0:0:0:0');
});

test('what is no address is taken for the address of whoever says it', () => {
  for (const header of ['', 'unknown', '_hidden', 'x'.repeat(10_000), '1.2.3.4.5']) {
    assert.equal(from(header), '192.0.2.1');
  }
});

async function assertServed(edge: Edge): Promise<void> {
  assert.equal((await edge.exchange(paymentRequest())).status, 202);
}

function coded(encoding: string | string[]): Buffer {
  return paymentRequest({ ...none, 'Transfer-Encoding': encoding }, '0\r\n\r\n');
}

function chunk(size: string): Buffer {
  const body = `${size}\r\n{"amount":1250,"currency":"EUR"}\r\n0\r\n\r\n`;
  return paymentRequest({ ...none, 'Transfer-Encoding': 'chunked' }, body);
}

/** A payment with one more line in its head, as it is given. */
function withLine(line: string): Buffer {
  const request = paymentRequest().toString('latin1');
  return Buffer.from(request.replace('\r\n', `\r\n${line}\r\n`), 'latin1');
}
