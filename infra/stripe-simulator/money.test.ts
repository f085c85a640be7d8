import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AccountAudit } from './store/account.ts';
import { aSimulator } from './test/simulator.ts';

// https://docs.stripe.com/currencies#special-cases

const card = { payment_method: 'pm_card_visa', payment_method_types: ['card'], confirm: true };
const noFraction = { code: 'invalid_charge_amount_no_decimal_compatible', statusCode: 400 };

test('a part of a charge is of whole units too, to be captured or given back, and one that is not takes nothing', async (t) => {
  const { stripe, control } = await aSimulator(t);
  for (const [currency, fraction, refusal] of [
    ['isk', 150, noFraction],
    ['ugx', 199, noFraction],
    ['kwd', 1_251, { type: 'StripeInvalidRequestError', statusCode: 400 }],
  ] as const) {
    const order = { ...card, amount: 500_000, currency };
    const held = await stripe.paymentIntents.create({ ...order, capture_method: 'manual' });
    const capture = (part: number) =>
      stripe.paymentIntents.capture(held.id, { amount_to_capture: part });
    await assert.rejects(capture(fraction), { ...refusal, param: 'amount_to_capture' });
    assert.equal((await capture(200_000)).amount_received, 200_000);
    const giveBack = (amount: number) =>
      stripe.refunds.create({ payment_intent: held.id, amount }, { idempotencyKey: currency });
    await assert.rejects(giveBack(fraction), { ...refusal, param: 'amount' });
    // A refusal of what was asked is not kept under the key.
    assert.equal((await giveBack(100)).amount, 100);
    const { charges, refunds } = await control<AccountAudit>('GET', '/audit');
    assert.deepEqual(charges[currency], { count: 1, amount: 200_000 });
    assert.deepEqual(refunds[currency], { count: 1, amount: 100 });
  }
});
