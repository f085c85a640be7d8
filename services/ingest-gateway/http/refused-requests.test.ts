import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { currentApiVersion } from '@triplock/contracts';
import { apiKey, httpRequest, paymentRequest, startEdge } from '../test/http-edge.ts';

const payment = '{"amount":1250,"currency":"EUR"}';
const key = 'Idempotency-Key';
const type = 'Content-Type';
const version = 'Triplock-Version';
const chunked = { 'Content-Length': undefined, 'Transfer-Encoding': 'chunked' };
const lineOf = (bytes: number) => `GET /v1/payments/${'x'.repeat(bytes)}`;

type Case = [what: string, request: Buffer, status: number, code: string, pointer?: string];

const refused: Case[] = [
  // Who asks.
  ['no API key', paymentRequest({ Authorization: undefined }), 401, 'unauthorized'],
  ['an unknown API key', paymentRequest({ Authorization: 'Bearer no' }), 401, 'unauthorized'],
  ['another scheme', paymentRequest({ Authorization: `Basic ${apiKey}` }), 401, 'unauthorized'],
  ['a scheme alone', paymentRequest({ Authorization: 'Bearer' }), 401, 'unauthorized'],
  ['two API keys', paymentRequest({ Authorization: `Bearer ${apiKey} x` }), 401, 'unauthorized'],
  // Who asks comes before what is asked.
  [
    'a huge body without an API key',
    paymentRequest({ Authorization: undefined }, ' '.repeat(100_000)),
    401,
    'unauthorized',
  ],
  ['garbage without an API key', paymentRequest({ Authorization: '' }, '{'), 401, 'unauthorized'],
  [
    'a payment without an API key',
    httpRequest('GET /v1/payments/x', { Authorization: undefined }),
    401,
    'unauthorized',
  ],
  // Where.
  ['an unknown path', httpRequest('GET /v1/payment'), 404, 'not_found'],
  [
    'an unknown path without an API key',
    httpRequest('GET /', { Authorization: undefined }),
    404,
    'not_found',
  ],
  [
    'an unknown path with a body of text',
    httpRequest('POST /v2', { [type]: 'text/plain' }, 'x'),
    404,
    'not_found',
  ],
  [
    'a trailing slash',
    httpRequest('POST /v1/payments/', { [type]: 'application/json' }, payment),
    404,
    'not_found',
  ],
  [
    'a path in capitals',
    httpRequest('POST /V1/PAYMENTS', { [type]: 'application/json' }, payment),
    404,
    'not_found',
  ],
  ['the asterisk', httpRequest('OPTIONS *'), 404, 'not_found'],
  ['a path of broken escapes', httpRequest('GET /v1/payments/%ff%'), 400, 'invalid_request'],
  ['a target of 9 KiB', httpRequest(lineOf(9_000)), 414, 'uri_too_long'],
  ['a query of 9 KiB', httpRequest(`GET /healthz?${'q'.repeat(9_000)}`), 414, 'uri_too_long'],
  ['an unknown path of 9 KiB', httpRequest(`GET /${'q'.repeat(9_000)}`), 414, 'uri_too_long'],
  ['a target of 20 KiB', httpRequest(lineOf(20_000)), 414, 'uri_too_long'],
  [
    'headers of 20 KiB',
    httpRequest('GET /healthz', { 'X-A': 'a'.repeat(20_000) }),
    431,
    'headers_too_large',
  ],
  [
    'a thousand headers',
    httpRequest('GET /healthz', { 'X-A': Array<string>(1_900).fill('12345678') }),
    431,
    'headers_too_large',
  ],
  // The version.
  ['an old version', paymentRequest({ [version]: '2020-01-01' }), 400, 'invalid_request'],
  ['a version that is none', paymentRequest({ [version]: 'latest' }), 400, 'invalid_request'],
  ['an empty version', paymentRequest({ [version]: '' }), 400, 'invalid_request'],
  [
    'the same version twice',
    paymentRequest({ [version]: [currentApiVersion, currentApiVersion] }),
    400,
    'invalid_request',
  ],
  [
    'an old version without an API key',
    paymentRequest({ [version]: '2020-01-01', Authorization: undefined }),
    401,
    'unauthorized',
  ],
  // The key.
  ['no key', paymentRequest({ [key]: undefined }), 400, 'idempotency_key_missing'],
  ['an empty key', paymentRequest({ [key]: '' }), 400, 'idempotency_key_invalid'],
  ['an empty string as key', paymentRequest({ [key]: '""' }), 400, 'idempotency_key_invalid'],
  ['two keys', paymentRequest({ [key]: ['a', 'b'] }), 400, 'idempotency_key_invalid'],
  ['the same key twice', paymentRequest({ [key]: ['a', 'a'] }), 400, 'idempotency_key_invalid'],
  ['a key with parameters', paymentRequest({ [key]: '"a";p=1' }), 400, 'idempotency_key_invalid'],
  ['a key beyond ASCII', paymentRequest({ [key]: 'caf\u00e9' }), 400, 'idempotency_key_invalid'],
  [
    'a key of 256 characters',
    paymentRequest({ [key]: 'k'.repeat(256) }),
    400,
    'idempotency_key_invalid',
  ],
  // The form of the body.
  ['text/plain', paymentRequest({ [type]: 'text/plain' }), 415, 'unsupported_media_type'],
  ['no content type', paymentRequest({ [type]: undefined }), 415, 'unsupported_media_type'],
  [
    'a content type that is none',
    paymentRequest({ [type]: 'json' }),
    415,
    'unsupported_media_type',
  ],
  [
    'another kind of JSON',
    paymentRequest({ [type]: 'application/ld+json' }),
    415,
    'unsupported_media_type',
  ],
  [
    'a form',
    paymentRequest({ [type]: 'application/x-www-form-urlencoded' }, 'amount=1'),
    415,
    'unsupported_media_type',
  ],
  [
    'Latin-1',
    paymentRequest({ [type]: 'application/json; charset=iso-8859-1' }),
    415,
    'unsupported_media_type',
  ],
  [
    'UTF-16',
    paymentRequest({ [type]: 'application/json;charset="utf-16"' }),
    415,
    'unsupported_media_type',
  ],
  [
    'gzip',
    paymentRequest({ 'Content-Encoding': 'gzip' }, gzipSync(payment)),
    415,
    'unsupported_media_type',
  ],
  [
    'two encodings',
    paymentRequest({ 'Content-Encoding': 'identity, br' }),
    415,
    'unsupported_media_type',
  ],
  [
    'gzip on the way',
    paymentRequest({ ...chunked, 'Transfer-Encoding': 'gzip, chunked' }, '0\r\n\r\n'),
    415,
    'unsupported_media_type',
  ],
  ['65 537 bytes', paymentRequest({}, payment.padEnd(65_537)), 413, 'body_too_large'],
  ['five megabytes', paymentRequest({}, payment.padEnd(5_000_000)), 413, 'body_too_large'],
  [
    '65 537 bytes in chunks',
    paymentRequest(chunked, inChunks(payment.padEnd(65_537))),
    413,
    'body_too_large',
  ],
  // The body.
  ['no body', paymentRequest({ 'Content-Length': '0' }, ''), 400, 'invalid_request', '#'],
  ['no body and no type', paymentRequest({ [type]: undefined }, ''), 400, 'invalid_request', '#'],
  ['half a body', paymentRequest({}, '{"amount":1250,'), 400, 'invalid_request', '#'],
  [
    'invalid UTF-8',
    paymentRequest({}, Buffer.from('{"\xff":1}', 'latin1')),
    400,
    'invalid_request',
    '#',
  ],
  ['a byte order mark', paymentRequest({}, `\ufeff${payment}`), 400, 'invalid_request', '#'],
  [
    '__proto__',
    paymentRequest({}, '{"__proto__":{"amount":1,"currency":"EUR"}}'),
    400,
    'invalid_request',
    '#/__proto__',
  ],
  [
    'a lone surrogate',
    paymentRequest({}, String.raw`{"reference":"\ud800"}`),
    400,
    'invalid_request',
    '#/reference',
  ],
  [
    'a name twice',
    paymentRequest({}, '{"amount":1,"currency":"EUR","amount":2}'),
    400,
    'invalid_request',
    '#/amount',
  ],
  [
    '2^53 + 1',
    paymentRequest({}, '{"amount":9007199254740993}'),
    400,
    'invalid_request',
    '#/amount',
  ],
  [
    '1.0',
    paymentRequest({}, '{"amount":1.0,"currency":"EUR"}'),
    400,
    'invalid_request',
    '#/amount',
  ],
  [
    '1e3',
    paymentRequest({}, '{"amount":1e3,"currency":"EUR"}'),
    400,
    'invalid_request',
    '#/amount',
  ],
  ['-0', paymentRequest({}, '{"amount":-0,"currency":"EUR"}'), 400, 'invalid_request', '#/amount'],
  [
    '17 levels',
    paymentRequest({}, `${'['.repeat(17)}${']'.repeat(17)}`),
    400,
    'invalid_request',
    `#${'/0'.repeat(16)}`,
  ],
  [
    'an unknown field',
    paymentRequest({}, `${payment.slice(0, -1)},"x":1}`),
    400,
    'invalid_request',
    '#/x',
  ],
  [
    'a card that is none',
    paymentRequest({}, `${payment.slice(0, -1)},"payment_method":"4242424242424242"}`),
    400,
    'invalid_request',
    '#/payment_method',
  ],
];

test('every bad request has its documented answer, is not handled, and the server lives on', async (t) => {
  const edge = await startEdge(t);
  for (const [what, request, status, code, pointer] of refused) {
    await t.test(what, async () => {
      const answer = await edge.exchange(request);
      const problem = JSON.parse(answer.body) as Record<string, unknown>;
      assert.deepEqual([answer.status, problem['code']], [status, code], answer.body);
      assert.equal(answer.headers['content-type'], 'application/problem+json');
      assert.equal(problem['status'], status);
      assert.equal(answer.headers['triplock-version'], currentApiVersion);
      if (what.includes('version') && status === 400) {
        assert.match(String(problem['detail']), new RegExp(currentApiVersion));
      }
      assert.ok(problem['type'] && problem['title'] && problem['detail']);
      assert.match(answer.headers['request-id']!, /^[\da-f-]{36}$/);
      assert.equal(problem['request_id'], answer.headers['request-id']);
      const [error] = (problem['errors'] ?? []) as { pointer: string }[];
      assert.equal(error?.pointer, pointer);
      if (status === 401) assert.equal(answer.headers['www-authenticate'], 'Bearer');
    });
  }
  assert.deepEqual(edge.handled, []);
  assert.equal((await edge.exchange(paymentRequest())).status, 202);
});

test('a known path under another method is 405 and lists what is allowed', async (t) => {
  const edge = await startEdge(t);
  const cases = [
    ['GET /v1/payments', 'POST'],
    ['PUT /v1/payments?x=1', 'POST'],
    ['OPTIONS /v1/payments', 'POST'],
    ['PROPFIND /v1/payments', 'POST'],
    ['DELETE /v1/payments/37585521-60c9-8d90-a37f-2e1b8a7081e6', 'GET, HEAD'],
    ['POST /healthz', 'GET, HEAD'],
  ] as const;
  for (const [line, allow] of cases) {
    const answer = await edge.exchange(httpRequest(line, { Authorization: undefined }));
    assert.equal(answer.status, 405, line);
    assert.equal(answer.headers['allow'], allow);
    assert.match(answer.body, /"code":"method_not_allowed"/);
  }
});

test('an unexpected error shows nothing of what went wrong inside', async (t) => {
  const edge = await startEdge(t);
  const answer = await edge.exchange(httpRequest('GET /bug'));
  assert.equal(answer.status, 500);
  assert.match(answer.body, /"code":"internal_error"/);
  assert.doesNotMatch(answer.body, /ECONN|10\.1\.2\.3|6379|\.ts|at /);
});

test('a refusal repeats neither the API key nor the body', async (t) => {
  const edge = await startEdge(t);
  const answer = await edge.exchange(
    paymentRequest({ Authorization: 'Bearer planted-secret' }, '{"planted":"secret"}'),
  );
  assert.doesNotMatch(JSON.stringify(answer), /planted/);
});

function inChunks(text: string): string {
  return `${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`;
}
