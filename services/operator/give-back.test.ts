import assert from 'node:assert/strict';
import { after, before, test, type TestContext } from 'node:test';
import { createTestDatabase, createTestStripe, type TestStripe } from '@triplock/testing';
import { aCardPayment, endedPayments } from '@triplock/inspect/test';
import { openOperator } from './test/run-operator.ts';

const runOperator = openOperator({ after });

let stripe: TestStripe;
let stopStripe = async () => {};
before(async () => {
  stripe = await createTestStripe({ after: (stop) => void (stopStripe = stop) });
});
after(() => stopStripe());

/** A ledger, a provider that has forgotten what was before, and payments that have ended. */
async function someEnded(context: TestContext) {
  await stripe.control('POST', '/reset');
  const store = await createTestDatabase(context);
  const giveBack = (id: string, ...words: string[]) =>
    runOperator(['give-back', id, '--why', 'told as failed', '--by', 'ada', ...words], {
      DATABASE_URL: store.url(),
      STRIPE_API_KEY: stripe.apiKey,
      STRIPE_API_URL: stripe.url,
    });
  return { ...endedPayments(store, stripe), giveBack };
}

test('money that was taken for a payment that had failed is given back whole, once, and recorded', async (context) => {
  const { aCard, anIntent, giveBack, acts, atProvider } = await someEnded(context);
  const payment = aCardPayment();
  const intentId = await anIntent(payment);
  await aCard('failed', intentId, payment);

  const looked = await giveBack(payment.txnId);
  assert.equal(looked.code, 0, looked.stderr);
  assert.match(looked.stdout, /took 77\.77 EUR: to be refunded\nnothing was changed/);
  assert.deepEqual([(await atProvider()).refunds, await acts()], [{}, []]);

  for (let time = 1; time <= 2; time += 1) {
    const given = await giveBack(payment.txnId, '--yes');
    assert.equal(given.code, 0, given.stderr);
    assert.deepEqual((await atProvider()).refunds, { eur: { count: 1, amount: 7_777 } });
  }
  const subject = `intent:${payment.txnId}/${intentId}`;
  const act = { act: 'give-back', subject, done_by: 'ada', why: 'told as failed' };
  assert.deepEqual(await acts(), [act, act]);
});

test('money that is held for a payment that had failed is let go', async (context) => {
  const { aCard, anIntent, giveBack, atProvider } = await someEnded(context);
  const payment = aCardPayment();
  await aCard('failed', await anIntent(payment, { capture_method: 'manual' }), payment);
  assert.notDeepEqual((await atProvider()).held, {});
  const given = await giveBack(payment.txnId, '--yes');
  assert.equal(given.code, 0, given.stderr);
  const { held, paymentIntents } = await atProvider();
  assert.deepEqual([held, paymentIntents], [{}, { canceled: 1 }]);
});

test('of a payment that was paid only what another intent took is given back', async (context) => {
  const { owner, aCard, anIntent, giveBack, atProvider, acts } = await someEnded(context);
  const payment = aCardPayment();
  const [own, another] = [await anIntent(payment), await anIntent(payment)];
  await aCard('succeeded', own, payment);
  await owner.query(
    `INSERT INTO auditor.provider_journal
       (provider, kind, id, status, amount, currency, created_at, intent_id, txn_id, partner_id)
     VALUES ('stripe', 'intent', $1, 'succeeded', 7777, 'EUR', now(), $1, $2, $3)`,
    [another, payment.txnId, payment.partnerId],
  );
  const given = await giveBack(payment.txnId, '--yes');
  assert.equal(given.code, 0, given.stderr);
  assert.deepEqual((await atProvider()).refunds, { eur: { count: 1, amount: 7_777 } });
  assert.deepEqual(
    (await acts()).map(({ subject }) => subject),
    [`intent:${payment.txnId}/${another}`],
  );
});

test('nothing is given back of what is pending, is unknown, or moved nothing', async (context) => {
  const { aCard, anIntent, giveBack, acts } = await someEnded(context);
  const [pending, failed] = [aCardPayment(), aCardPayment()];
  await aCard('pending', await anIntent(pending), pending);
  const early = await giveBack(pending.txnId, '--yes');
  assert.deepEqual([early.code, /is pending/.test(early.stderr)], [1, true], early.stderr);
  const unknown = await giveBack(aCardPayment().txnId, '--yes');
  assert.deepEqual([unknown.code, /no payment of this ledger/.test(unknown.stderr)], [1, true]);
  const intentId = await anIntent(failed, { capture_method: 'manual' });
  await fetch(`${stripe.url}/v1/payment_intents/${intentId}/cancel`, {
    method: 'POST',
    headers: { authorization: `Bearer ${stripe.apiKey}` },
  });
  await aCard('failed', intentId, failed);
  const nothing = await giveBack(failed.txnId, '--yes');
  assert.equal(nothing.code, 0, nothing.stderr);
  assert.match(nothing.stdout, /is cancelled/);
  assert.deepEqual(await acts(), []);
});
