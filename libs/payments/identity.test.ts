import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  bucketOf,
  canonicalJson,
  deriveDisputeEventId,
  deriveDisputeId,
  deriveEventId,
  deriveId,
  deriveKeyConflictId,
  deriveTxnId,
  fingerprint,
  isTxnId,
  type JsonValue,
} from './identity.ts';
import { eventTypes } from './kinds.ts';
import type { Fingerprint, IdempotencyKey, PartnerId, TxnId } from './nominal.ts';
import { isFinal } from './states.ts';

const acme = 'acme' as PartnerId;
const order = 'order-1001' as IdempotencyKey;
const payment = '37585521-60c9-8d90-a37f-2e1b8a7081e6' as TxnId;
const anyText = fc.string({ unit: 'binary' }).filter((text) => text.isWellFormed());
const anyParts = fc.array(anyText, { minLength: 1, maxLength: 5 });

test('the published vectors hold', () => {
  assert.equal(deriveTxnId('payment', acme, order), payment);
  assert.equal(deriveTxnId('refund', acme, order), '66b9d384-d57e-8dad-9491-3751cc7aa855');
  assert.equal(deriveEventId(payment, 'payment.succeeded'), '328391a9-46c9-8809-a8b6-3591db80e499');
});

test('an id is the start of a SHA-256 over its parts, each after its length in bytes', () => {
  fc.assert(
    fc.property(anyParts, (parts) => {
      const framed = parts.map((part) => {
        const length = Buffer.alloc(4);
        length.writeUInt32BE(Buffer.byteLength(part));
        return Buffer.concat([length, Buffer.from(part)]);
      });
      const hash = createHash('sha256').update(Buffer.concat(framed)).digest('hex');
      const hex = deriveId(...parts).replaceAll('-', '');
      // All but the version (digit 12) and the two bits of the variant (in digit 16).
      assert.equal(hex.slice(0, 12), hash.slice(0, 12));
      assert.equal(hex.slice(13, 16), hash.slice(13, 16));
      assert.equal(hex.slice(17), hash.slice(17, 32));
    }),
  );
});

test('every id is a lower-case UUIDv8', () => {
  fc.assert(fc.property(anyParts, (parts) => assert.ok(isTxnId(deriveId(...parts)))));
});

test('what looks like an id but is none is recognised', () => {
  for (const text of ['', payment.toUpperCase(), `${payment} `, payment.replace('-8', '-4')]) {
    assert.equal(isTxnId(text), false);
  }
});

test('text moved from one part to the next makes another id', () => {
  fc.assert(
    fc.property(anyText, anyText, anyText, (a, b, c) => {
      fc.pre(b !== '');
      assert.notEqual(deriveId(a + b, c), deriveId(a, b + c));
    }),
  );
});

test('partners, kinds and event types never share an id', () => {
  const loser = 'f'.repeat(64) as Fingerprint;
  const ids = [
    deriveTxnId('payment', acme, order),
    deriveTxnId('refund', acme, order),
    deriveTxnId('payment', 'globex' as PartnerId, order),
    ...eventTypes
      .filter((type) => type !== 'payment.key_conflict' && type !== 'payment.disputed')
      .map((type) => deriveEventId(payment, type)),
    deriveDisputeEventId(payment, 'du_1'),
    deriveDisputeEventId(payment, 'du_2'),
    deriveDisputeId({ provider: 'stripe', intentId: payment, disputeId: 'du_1' }),
    deriveDisputeId({ provider: 'stripe', intentId: payment, disputeId: 'du_2' }),
    deriveKeyConflictId(payment, loser),
    deriveKeyConflictId(payment, '0'.repeat(64) as Fingerprint),
  ];
  assert.equal(new Set(ids).size, ids.length);
});

test('a bucket is within its range and holds its even share', () => {
  const counts = new Array<number>(64).fill(0);
  for (let each = 0; each < 64_000; each += 1) {
    const id = deriveTxnId('payment', acme, String(each) as IdempotencyKey);
    counts[bucketOf(id, 64)]! += 1;
  }
  // 1000 each on average, standard deviation 32: five of them bound a fair spread.
  for (const count of counts) assert.ok(count > 840 && count < 1160, String(count));
});

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

test('only pending can still change', () => {
  assert.deepEqual((['pending', 'succeeded', 'failed'] as const).map(isFinal), [false, true, true]);
});
