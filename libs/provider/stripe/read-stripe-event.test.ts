import assert from 'node:assert/strict';
import { test } from 'node:test';
import Stripe from 'stripe';
import { readStripeEvent } from './read-stripe-event.ts';

const secret = 'whsec_test';

/** A webhook as Stripe sends it, signed `ageSeconds` ago. */
function aWebhook(object: object, { ageSeconds = 0, type = 'payment_intent.succeeded' } = {}) {
  const payload = JSON.stringify({ id: 'evt_1', object: 'event', type, data: { object } });
  const timestamp = Math.floor(Date.now() / 1_000) - ageSeconds;
  const signature = Stripe.webhooks.generateTestHeaderString({ payload, secret, timestamp });
  return { body: Buffer.from(payload), signature, secret };
}

test('an event names the intent that has something new, its own or its refund’s', () => {
  for (const object of [{ id: 'pi_1' }, { id: 're_1', payment_intent: 'pi_1' }]) {
    assert.deepEqual(readStripeEvent(aWebhook(object)), {
      outcome: 'event',
      event: { id: 'evt_1', type: 'payment_intent.succeeded', intentId: 'pi_1' },
    });
  }
});

test('an event about something else is genuine and ignored', () => {
  const read = readStripeEvent(aWebhook({ id: 'cus_1' }, { type: 'customer.created' }));
  assert.deepEqual(read, { outcome: 'ignored', type: 'customer.created' });
});

test('what is unsigned, altered, signed by somebody else or old is forged', () => {
  const genuine = aWebhook({ id: 'pi_1' });
  const forgeries = [
    { ...genuine, signature: undefined },
    { ...genuine, signature: 'nonsense' },
    { ...genuine, body: Buffer.from(`${genuine.body.toString()} `) },
    { ...genuine, secret: 'whsec_other' },
    aWebhook({ id: 'pi_1' }, { ageSeconds: 301 }),
  ];
  for (const each of forgeries) assert.equal(readStripeEvent(each).outcome, 'forged');
});
