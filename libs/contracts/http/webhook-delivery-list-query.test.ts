import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseWebhookDeliveryListQuery } from './webhook-delivery-list-query.ts';

const id = '328391a9-46c9-8809-a8b6-3591db80e499';

test('wishes are taken as they are sent, and none is a wish too', () => {
  assert.deepEqual(parseWebhookDeliveryListQuery(''), { outcome: 'valid', values: {} });
  const query = `limit=100&starting_after=${id}&status=failed&txn_id=${id}`;
  assert.deepEqual(parseWebhookDeliveryListQuery(query), {
    outcome: 'valid',
    values: { limit: 100, starting_after: id, status: 'failed', txn_id: id },
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
    [`starting_after=${id.toUpperCase()}`, '#/starting_after'],
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
