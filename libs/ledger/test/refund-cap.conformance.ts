import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { aRefund, type aPayment } from '@triplock/testing';
import fc from 'fast-check';
import type { RefundOutcome } from '../refunds.ts';
import { aTransfer, posting, type RefundsUnderTest } from './under-test.ts';

/**
 * The part of the refunds' promises that is about their cap; `rounds` payments are refunded at
 * will.
 */
export function refundCap(
  open: (context: TestContext) => Promise<RefundsUnderTest>,
  rounds: number,
): void {
  test('of ten refunds of 60 percent at once one succeeds', async (context) => {
    const store = await open(context);
    const payment = await aTransfer(store);
    const outcomes = await atOnce(store, payment, { refunds: 10, amount: 60n });
    assert.deepEqual(outcomes, { succeeded: 1, failed: 9 });
    assert.equal((await store.ledger.find(payment.txnId))?.amountRefunded, 60n);
  });

  test('of fifty refunds of 2 percent, twenty at once, all succeed, in an unbroken sequence', async (context) => {
    const store = await open(context);
    const payment = await aTransfer(store);
    const outcomes = await atOnce(store, payment, { refunds: 50, amount: 2n });
    assert.deepEqual(outcomes, { succeeded: 50 });
    assert.deepEqual(
      (await store.events()).map(({ sequence }) => sequence),
      Array.from({ length: 51 }, (_, n) => n + 1),
    );
  });

  test('whatever refunds come at once, what is given back never exceeds the payment', async (context) => {
    const store = await open(context);
    const amounts = fc.array(fc.option(fc.bigInt(1n, 120n), { nil: undefined }), {
      minLength: 1,
      maxLength: 8,
    });
    const property = fc.asyncProperty(amounts, async (wishes) => {
      const payment = await aTransfer(store);
      const some = wishes.map((amount) => aRefund(payment, amount === undefined ? {} : { amount }));
      await Promise.all(
        some.map((refund, n) => [store.refunds, store.otherRefunds][n % 2]!.post(posting(refund))),
      );
      const rows = await Promise.all(some.map(({ txnId }) => store.refunds.find(txnId)));
      let given = 0n;
      for (const row of rows) if (row?.state === 'succeeded') given += row.money!.amount;
      const { amountRefunded } = (await store.ledger.find(payment.txnId))!;
      assert.equal(given, amountRefunded);
      assert.ok(given <= 100n);
      // A refund fails only for want of money: what is left is less than what any of them asked.
      for (const row of rows) {
        if (row?.state !== 'failed') continue;
        assert.ok((row.details.amount ?? 1n) > 100n - given);
      }
    });
    await fc.assert(property, { numRuns: rounds });
  });
}

async function atOnce(
  { refunds, otherRefunds }: RefundsUnderTest,
  payment: ReturnType<typeof aPayment>,
  wish: { refunds: number; amount: bigint },
): Promise<Record<string, number>> {
  let left = wish.refunds;
  const outcomes: RefundOutcome[] = [];
  // More at once would only wait for a connection, and a busy machine gives up on that.
  const posters = Array.from({ length: Math.min(20, wish.refunds) }, async (_, n) => {
    while (left > 0) {
      left -= 1;
      const refund = posting(aRefund(payment, { amount: wish.amount }));
      outcomes.push(await [refunds, otherRefunds][n % 2]!.post(refund));
    }
  });
  await Promise.all(posters);
  const counts: Record<string, number> = {};
  for (const outcome of outcomes) {
    assert.equal(outcome.outcome, 'settled');
    if ('state' in outcome) counts[outcome.state] = (counts[outcome.state] ?? 0) + 1;
  }
  return counts;
}
