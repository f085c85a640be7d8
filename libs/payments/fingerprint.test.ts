import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { canonicalJson, fingerprint, type JsonValue } from './fingerprint.ts';

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

const { json } = fc.letrec<{ json: JsonValue }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 4 },
    fc.constant(null),
    fc.boolean(),
    fc.maxSafeInteger(),
    fc.string({ unit: 'grapheme' }),
    fc.array(tie('json'), { maxLength: 4 }),
    fc.dictionary(fc.string({ unit: 'grapheme' }), tie('json'), {
      maxKeys: 4,
      noNullPrototype: true,
    }),
  ),
}));

test('canonical JSON says the same as what it was made from', () => {
  fc.assert(
    fc.property(json, (value) => {
      assert.deepEqual(JSON.parse(canonicalJson(value)), JSON.parse(JSON.stringify(value)));
    }),
  );
});

test('the order of members changes nothing', () => {
  fc.assert(
    fc.property(json, (value) =>
      assert.equal(canonicalJson(reversed(value)), canonicalJson(value)),
    ),
  );
});

test('the form is a fixed point', () => {
  fc.assert(
    fc.property(json, (value) => {
      const text = canonicalJson(value);
      assert.equal(canonicalJson(JSON.parse(text) as JsonValue), text);
    }),
  );
});

test('members are sorted by UTF-16 code units, as in the example of RFC 8785, section 3.2.3', () => {
  const members = {
    '\u20ac': 'Euro Sign',
    '\r': 'Carriage Return',
    '\ufb33': 'Hebrew Letter Dalet With Dagesh',
    '1': 'One',
    '\ud83d\ude00': 'Emoji: Grinning Face',
    '\u0080': 'Control',
    '\u00f6': 'Latin Small Letter O With Diaeresis',
  };
  const sorted = ['\\r', '1', '\u0080', '\u00f6', '\u20ac', '\ud83d\ude00', '\ufb33'];
  const text = canonicalJson(members);
  assert.deepEqual(
    [...text.matchAll(/"([^"]+)":/g)].map(([, name]) => name),
    sorted,
  );
});

test('a member that is undefined is left out', () => {
  assert.equal(canonicalJson({ b: undefined, a: 1 }), '{"a":1}');
});

function reversed(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map((each: JsonValue) => reversed(each));
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).map(([name, each]) => [name, reversed(each!)] as const);
  return Object.fromEntries(members.reverse());
}
