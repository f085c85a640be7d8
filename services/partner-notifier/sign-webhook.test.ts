import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EventId } from '@triplock/payments';
import { Webhook } from 'standardwebhooks';
import { signWebhook } from './sign-webhook.ts';

const older = 'whsec_c2VjcmV0LW9uZS1vZi1hY21lLTI0Ynl0ZXM=';
const newer = 'whsec_c2VjcmV0LXR3by1vZi1hY21lLTI0Ynl0ZXM=';
const eventId = '328391a9-46c9-8809-a8b6-3591db80e499' as EventId;
const body = '{"type":"payment.succeeded","data":{"description":"Grüße €"}}';

test('a receiver verifies with either secret while they rotate', () => {
  const headers = signWebhook([newer, older], { eventId, body, at: new Date() });
  for (const secret of [newer, older]) {
    assert.deepEqual(new Webhook(secret).verify(body, headers), JSON.parse(body));
  }
  assert.equal(headers['webhook-id'], eventId);
});

test('a receiver refuses an altered body, another secret and an old attempt', () => {
  const headers = signWebhook([newer], { eventId, body, at: new Date() });
  assert.throws(() => new Webhook(newer).verify(`${body} `, headers));
  assert.throws(() => new Webhook(older).verify(body, headers));
  const old = signWebhook([newer], { eventId, body, at: new Date(Date.now() - 3_600_000) });
  assert.throws(() => new Webhook(newer).verify(body, old), /too old/);
});

test('each attempt has a time and a signature of its own, and the same id', () => {
  const [first, second] = [1_000, 2_000].map((ms) =>
    signWebhook([newer], { eventId, body, at: new Date(ms) }),
  );
  assert.equal(first!['webhook-id'], second!['webhook-id']);
  assert.notEqual(first!['webhook-timestamp'], second!['webhook-timestamp']);
  assert.notEqual(first!['webhook-signature'], second!['webhook-signature']);
});
