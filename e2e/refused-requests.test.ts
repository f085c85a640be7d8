import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Answer, newKey, type PartnerRequest, sendTo } from './test/partner.ts';
import { onTheSystem } from './test/system.ts';

const on = onTheSystem();

const good = { amount: 100, currency: 'EUR' };
const post = (body: unknown, headers: Record<string, string> = {}): PartnerRequest => ({
  method: 'POST',
  path: '/v1/payments',
  key: newKey('refused'),
  body,
  headers,
});
const without = (request: PartnerRequest): PartnerRequest => ({ ...request, key: undefined });
const levels = (depth: number) => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`;

type Refusal = {
  title: string;
  request: PartnerRequest;
  status: number;
  code: string;
  pointer?: string;
};

const invalid = (title: string, body: unknown, pointer?: string): Refusal => ({
  title,
  request: post(body),
  status: 400,
  code: 'invalid_request',
  pointer,
});

const refusals: Refusal[] = [
  { title: 'no key', request: without(post(good)), status: 400, code: 'idempotency_key_missing' },
  {
    title: 'an empty key',
    request: { ...post(good), key: '""' },
    status: 400,
    code: 'idempotency_key_invalid',
  },
  {
    title: 'a key of 256',
    request: { ...post(good), key: 'k'.repeat(256) },
    status: 400,
    code: 'idempotency_key_invalid',
  },
  {
    title: 'a key with parameters',
    request: { ...post(good), key: '"a";b=1' },
    status: 400,
    code: 'idempotency_key_invalid',
  },
  invalid('amount missing', { currency: 'EUR' }, '#/amount'),
  invalid('amount zero', { ...good, amount: 0 }, '#/amount'),
  invalid('amount negative', { ...good, amount: -1 }, '#/amount'),
  invalid('amount above the limit', { ...good, amount: 1_000_000_000_000 }, '#/amount'),
  invalid('amount as text', { ...good, amount: '100' }, '#/amount'),
  invalid('amount 1.0', '{"amount":1.0,"currency":"EUR"}'),
  invalid('amount 1e3', '{"amount":1e3,"currency":"EUR"}'),
  invalid('amount -0', '{"amount":-0,"currency":"EUR"}'),
  invalid('amount 2^53+1', '{"amount":9007199254740993,"currency":"EUR"}'),
  invalid('currency in lower case', { ...good, currency: 'eur' }, '#/currency'),
  invalid('currency unknown', { ...good, currency: 'ZZZ' }, '#/currency'),
  invalid('an unknown field', { ...good, colour: 'red' }, '#/colour'),
  invalid('a card number', { ...good, payment_method: '4242424242424242' }, '#/payment_method'),
  invalid('a reference of 65', { ...good, reference: 'é'.repeat(65) }, '#/reference'),
  invalid('a control character', { ...good, reference: 'a\u0000b' }, '#/reference'),
  invalid(
    'metadata of 21',
    { ...good, metadata: Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`k${i}`, 'v'])) },
    '#/metadata',
  ),
  invalid('metadata with a number', { ...good, metadata: { a: 1 } }, '#/metadata/a'),
  invalid('a duplicate name', '{"amount":1,"amount":2,"currency":"EUR"}'),
  invalid('a lone surrogate', '{"amount":1,"currency":"EUR","reference":"\\ud800"}'),
  invalid('__proto__', '{"amount":1,"currency":"EUR","__proto__":{"x":1}}'),
  invalid('a BOM', '\ufeff{"amount":1,"currency":"EUR"}'),
  invalid('17 levels', `{"amount":1,"currency":"EUR","metadata":${levels(17)}}`),
  invalid('half a body', '{"amount":1,'),
  invalid('an array', []),
  invalid('nothing', ''),
  {
    title: 'a body over 64 KiB',
    request: post({ ...good, description: 'x'.repeat(70_000) }),
    status: 413,
    code: 'body_too_large',
  },
  {
    title: 'text/plain',
    request: post(good, { 'content-type': 'text/plain' }),
    status: 415,
    code: 'unsupported_media_type',
  },
  {
    title: 'another charset',
    request: post(good, { 'content-type': 'application/json; charset=latin1' }),
    status: 415,
    code: 'unsupported_media_type',
  },
  {
    title: 'a content encoding',
    request: post(good, { 'content-encoding': 'gzip' }),
    status: 415,
    code: 'unsupported_media_type',
  },
  {
    title: 'no API key',
    request: post(good, { authorization: '' }),
    status: 401,
    code: 'unauthorized',
  },
  {
    title: 'a wrong API key',
    request: post(good, { authorization: 'Bearer nobody' }),
    status: 401,
    code: 'unauthorized',
  },
  {
    title: 'another scheme',
    request: post(good, { authorization: 'Basic YTpi' }),
    status: 401,
    code: 'unauthorized',
  },
  {
    title: 'DELETE',
    request: { method: 'DELETE', path: '/v1/payments' },
    status: 405,
    code: 'method_not_allowed',
  },
  { title: 'an unknown path', request: { path: '/v1/nothing' }, status: 404, code: 'not_found' },
  {
    title: 'an unknown payment',
    request: { path: '/v1/payments/37585521-60c9-8d90-a37f-2e1b8a7081e6' },
    status: 404,
    code: 'not_found',
  },
  {
    title: 'a malformed id',
    request: { path: '/v1/payments/..%2f..%2fetc' },
    status: 404,
    code: 'not_found',
  },
];

async function written(): Promise<unknown> {
  const rows = await on.look.ledger.query(
    'SELECT (SELECT count(*) FROM ledger.transactions)::int AS ledger, (SELECT count(*) FROM ledger.outbox)::int AS outbox',
  );
  return { rows, claims: await on.claims.count() };
}

function assertProblem(answer: Answer, expected: Refusal): void {
  assert.equal(answer.status, expected.status, answer.body);
  assert.match(answer.headers['content-type'] ?? '', /^application\/problem\+json/);
  const problem = JSON.parse(answer.body);
  assert.equal(problem.code, expected.code, answer.body);
  assert.equal(problem.status, expected.status);
  assert.ok(problem.type && problem.title && problem.detail, answer.body);
  assert.doesNotMatch(answer.body, /node_modules|at .+\.ts:|127\.0\.0\.1|localhost/);
  if (expected.pointer) {
    const pointers = problem.errors.map((each: { pointer: string }) => each.pointer);
    assert.ok(pointers.includes(expected.pointer), answer.body);
  }
}

test('what the gateway refuses gets its documented answer, writes nothing and harms nobody', async (t) => {
  // One payment first, so that what boot writes is not taken for what a refusal wrote.
  const first = JSON.parse((await on.acme.pay(newKey(), good)).body) as { id: string };
  await on.acme.payment(first.id, 30);
  const before = await written();
  for (const refusal of refusals) {
    await t.test(refusal.title, async () =>
      assertProblem(await on.acme.send(refusal.request), refusal),
    );
  }
  assert.deepEqual(await written(), before);
  assert.equal((await on.acme.pay(newKey(), good)).status, 202);
});

test('a refusal says how to mend it: Allow, WWW-Authenticate, every wrong field at once', async () => {
  const wrongMethod = await on.acme.send({ method: 'PUT', path: '/v1/payments' });
  assert.match(wrongMethod.headers['allow'] ?? '', /POST/);
  const nobody = await sendTo(on.system.gateway, post(good));
  assert.equal(nobody.status, 401);
  assert.equal(nobody.headers['www-authenticate'], 'Bearer');
  const both = await on.acme.send(post({ amount: 0, currency: 'eur' }));
  const pointers = JSON.parse(both.body).errors.map((each: { pointer: string }) => each.pointer);
  assert.deepEqual(pointers.sort(), ['#/amount', '#/currency']);
});

test('a refused body does not use up its key', async () => {
  const key = newKey();
  assert.equal((await on.acme.pay(key, { ...good, amount: 0 })).status, 400);
  assert.equal((await on.acme.pay(key, good)).status, 202);
});
