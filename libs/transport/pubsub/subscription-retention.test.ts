import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createTestSubscription } from '@triplock/testing';
import { readSubscriptionRetention } from './subscription-retention.ts';

test('a subscription tells for how long its messages can come again', async (context) => {
  const subscription = await createTestSubscription(context);
  const week = { outcome: 'known', retentionMs: 7 * 86_400_000 };
  assert.deepEqual(await readSubscriptionRetention(subscription), week);
});

test('of a subscription that is missing it is told why nothing is known', async (context) => {
  const place = await createTestSubscription(context);
  const answer = await readSubscriptionRetention({ ...place, subscription: 'missing' });
  assert.equal(answer.outcome, 'unknown');
});
