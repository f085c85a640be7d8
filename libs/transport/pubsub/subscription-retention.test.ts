import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createTestSubscription } from '@triplock/testing';
import { readSubscriptionRetention } from './subscription-retention.ts';

test('for how long the messages of a subscription can come again is known', async (context) => {
  const subscription = await createTestSubscription(context);
  const week = { outcome: 'known', retentionMs: 7 * 86_400_000 };
  assert.deepEqual(await readSubscriptionRetention(subscription), week);
});

test('of a subscription that is missing it is known why nothing is known', async (context) => {
  const connection = await createTestSubscription(context);
  const answer = await readSubscriptionRetention({ ...connection, subscription: 'missing' });
  assert.equal(answer.outcome, 'unknown');
});
