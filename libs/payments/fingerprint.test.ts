import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { fingerprint } from './fingerprint.ts';

const request = {
  method: 'POST',
  path: '/v1/payments',
  body: { amount: 1250, currency: 'EUR', metadata: { b: '2', a: '1' } },
};

test('a fingerprint is a SHA-256 that anyone can compute from method, path and canonical body', () => {
  const parts = [
    'POST',
    '/v1/payments',
    '{"amount":1250,"currency":"EUR","metadata":{"a":"1","b":"2"}}',
  ];
  const framed = parts.map((part) => `\0\0\0${String.fromCharCode(part.length)}${part}`);
  const expected = createHash('sha256').update(framed.join(''), 'latin1').digest('hex');
  assert.equal(fingerprint(request), expected);
});

test('a retry that orders its members otherwise has the same fingerprint', () => {
  const body = { metadata: { a: '1', b: '2' }, currency: 'EUR', amount: 1250 };
  assert.equal(fingerprint({ ...request, body }), fingerprint(request));
});

test('another method, path or body has another fingerprint', () => {
  const others = [
    { ...request, method: 'PUT' },
    { ...request, path: '/v1/payments/x/refunds' },
    { ...request, body: { ...request.body, amount: 1251 } },
    { ...request, body: { ...request.body, amount: '1250' } },
    { ...request, body: { ...request.body, reference: '' } },
  ];
  const all = [request, ...others].map(fingerprint);
  assert.equal(new Set(all).size, all.length);
});
