import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parsePaymentListQuery, parseWebhookDeliveryListQuery } from './list-query.ts';

const id = '37585521-60c9-8d90-a37f-2e1b8a7081e6';

function wishes(query: string) {
  const parsed = parsePaymentListQuery(query);
  assert.ok(parsed.outcome === 'valid', JSON.stringify(parsed));
  return parsed.query;
}

test('a query says how many, behind which, of which state and reference', () => {
  assert.deepEqual(wishes(`limit=100&starting_after=${id}&status=failed&reference=a`), {
    limit: 100,
    startingAfter: id,
    status: 'failed',
    reference: 'a',
    since: undefined,
    until: undefined,
  });
});

test('a time is that of the clock anywhere, and what is finer than milliseconds is not before it', () => {
  const since = (text: string) => wishes(`since=${encodeURIComponent(text)}`).since?.toISOString();
  for (const [text, time] of [
    ['2026-03-01T00:00:00Z', '2026-03-01T00:00:00.000Z'],
    ['2026-03-01T01:00:00+01:00', '2026-03-01T00:00:00.000Z'],
    ['2026-02-28T16:00:00.5-08:00', '2026-03-01T00:00:00.500Z'],
    ['2026-03-01T00:00:00.123000Z', '2026-03-01T00:00:00.123Z'],
    ['2026-03-01T00:00:00.123456789Z', '2026-03-01T00:00:00.124Z'],
    ['2026-03-01T00:00:59.9999Z', '2026-03-01T00:01:00.000Z'],
    ['2028-02-29T00:00:00Z', '2028-02-29T00:00:00.000Z'],
  ] as const) {
    assert.equal(since(text), time, text);
  }
});

test('without a query it is the newest twenty', () => {
  for (const query of ['', '&', '&&']) {
    const usual = { startingAfter: undefined, status: undefined, reference: undefined };
    const times = { since: undefined, until: undefined };
    assert.deepEqual(wishes(query), { limit: 20, ...usual, ...times });
  }
});

test('any reference that a payment can have can be asked for', () => {
  const allowed = fc
    .string({ unit: 'grapheme', maxLength: 20 })
    .filter((text) => !/[\u0000-\u001f\u007f-\u009f]/.test(text) && [...text].length <= 64);
  fc.assert(
    fc.property(allowed, (reference) => {
      assert.equal(wishes(`reference=${encodeURIComponent(reference)}`).reference, reference);
      assert.equal(wishes(new URLSearchParams({ reference }).toString()).reference, reference);
    }),
  );
  assert.equal(wishes('reference=a=b').reference, 'a=b');
});

const refused: readonly [query: string, pointer: string][] = [
  ...['0', '101', '-1', '+5', '1.0', '1e1', '05', '0x5', '', ' 5', '5%20', '٥', 'many'].map(
    (limit): [string, string] => [`limit=${limit}`, '#/limit'],
  ),
  ['limit', '#/limit'],
  ['limit=5&limit=5', '#/limit'],
  ['limit=5&li%6Dit=6', '#/limit'],
  ['limit[]=5', '#/limit%5B%5D'],
  ['LIMIT=5', '#/LIMIT'],
  ['ending_before=x', '#/ending_before'],
  ['__proto__=x', '#/__proto__'],
  ['constructor=x', '#/constructor'],
  ['=x', '#/'],
  ['status=', '#/status'],
  ['status=done', '#/status'],
  ['status=Pending', '#/status'],
  ['status=pending,failed', '#/status'],
  ['starting_after=', '#/starting_after'],
  ['starting_after=x', '#/starting_after'],
  [`starting_after=${id.toUpperCase()}`, '#/starting_after'],
  ['starting_after=37585521-60c9-4d90-a37f-2e1b8a7081e6', '#/starting_after'],
  [`reference=${'x'.repeat(65)}`, '#/reference'],
  ['reference=%00', '#/reference'],
  ['reference=a%0Ab', '#/reference'],
  ['reference=%ff', '#/reference'],
  ['reference=%ED%A0%80', '#/reference'],
  ['reference=%', '#/reference'],
  ['since=', '#/since'],
  ['since=2026-03-01', '#/since'],
  ['since=2026-03-01T00:00:00', '#/since'],
  ['since=2026-03-01T01:00:00+01:00', '#/since'],
  ['since=2026-02-29T00:00:00Z', '#/since'],
  ['until=2026-04-31T00:00:00Z', '#/until'],
  ['until=1772323200', '#/until'],
];

for (const [query, pointer] of refused) {
  test(`${query.slice(0, 50)} is refused and pointed at`, () => {
    const parsed = parsePaymentListQuery(query);
    assert.ok(parsed.outcome === 'invalid');
    assert.deepEqual(
      parsed.errors.map((error) => error.pointer),
      [pointer],
    );
  });
}

test('everything wrong is reported at once, and no more than fifty things', () => {
  const parsed = parsePaymentListQuery('limit=0&status=x&a=1');
  assert.ok(parsed.outcome === 'invalid');
  assert.equal(parsed.errors.length, 3);
  const flood = parsePaymentListQuery('a&'.repeat(2_000));
  assert.ok(flood.outcome === 'invalid');
  assert.equal(flood.errors.length, 50);
});

test('no text at all makes it throw', () => {
  fc.assert(fc.property(fc.string(), (query) => void parsePaymentListQuery(query)));
});

const deliveryId = '328391a9-46c9-8809-a8b6-3591db80e499';

test('wishes are taken as they are sent, and none is a wish too', () => {
  assert.deepEqual(parseWebhookDeliveryListQuery(''), { outcome: 'valid', values: {} });
  const query = `limit=100&starting_after=${deliveryId}&status=failed&txn_id=${deliveryId}`;
  assert.deepEqual(parseWebhookDeliveryListQuery(query), {
    outcome: 'valid',
    values: { limit: 100, starting_after: deliveryId, status: 'failed', txn_id: deliveryId },
  });
});

test('an unknown, repeated or malformed parameter is pointed at', () => {
  for (const [query, pointer] of [
    ['limit=0', '#/limit'],
    ['limit=101', '#/limit'],
    ['limit=1e1', '#/limit'],
    ['limit=+5', '#/limit'],
    ['limit=05', '#/limit'],
    ['limit=', '#/limit'],
    ['limit', '#/limit'],
    ['limit=5&limit=5', '#/limit'],
    ['starting_after=7', '#/starting_after'],
    [`starting_after=${deliveryId.toUpperCase()}`, '#/starting_after'],
    ['status=succeeded', '#/status'],
    ['status=%ff', '#/status'],
    ['txn_id=7', '#/txn_id'],
    ['state=failed', '#/state'],
    ['__proto__=1', '#/__proto__'],
    ['=1', '#/'],
  ] as const) {
    const parsed = parseWebhookDeliveryListQuery(query);
    assert.ok(parsed.outcome === 'invalid', query);
    const pointers = parsed.errors.map((error) => error.pointer);
    assert.deepEqual(pointers, [pointer], query);
  }
  const many = Array.from({ length: 80 }, (_, n) => `x${n}=1`).join('&');
  const parsed = parseWebhookDeliveryListQuery(many);
  assert.equal(parsed.outcome === 'invalid' && parsed.errors.length, 50);
});
