import assert from 'node:assert/strict';
import { test } from 'node:test';
import { httpRequest, paymentRequest, startEdge, type Edge } from '../test/http-edge.ts';

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
    limits: { headTimeoutMs: 3_000, requestTimeoutMs: 3_000, timeoutCheckMs: 50 },
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

test('a thousand requests sent without waiting for an answer are answered in order', async (t) => {
  const edge = await startEdge(t);
  const connection = edge.connect();
  const lines = Array.from({ length: 1_000 }, (_, at) =>
    at % 2 === 0 ? 'GET /healthz' : 'GET /no',
  );
  connection.send(Buffer.concat(lines.map((line) => httpRequest(line))));
  for (const line of lines) {
    assert.equal((await connection.answer()).status, line === 'GET /no' ? 404 : 200);
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
