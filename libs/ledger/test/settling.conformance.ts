import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { Settlement, TxnId } from '@triplock/payments';
import { aPayment } from '@triplock/testing';
import { UnpostableError } from '../ledger.ts';
import { type LedgerUnderTest, pendingOf, settledNow, traceparent } from './under-test.ts';

/** The part of the ledger's promises that is about settling what was posted before. */
export function settling(open: (context: TestContext) => Promise<LedgerUnderTest>): void {
  test('settling makes a pending payment final, once, with its entry and event', async (context) => {
    const { ledger, entries, events } = await open(context);
    const payment = aPayment();
    await ledger.post([pendingOf(payment)]);
    const request = settlementOf(payment.txnId, { state: 'succeeded' });
    assert.deepEqual(await ledger.settle(request), { outcome: 'settled' });
    assert.deepEqual(await ledger.settle(request), { outcome: 'stale' });
    assert.deepEqual(await ledger.settle({ ...request, version: 2 }), { outcome: 'stale' });
    assert.equal((await entries()).length, 1);
    assert.deepEqual(
      (await events()).map((event) => event.sequence),
      [1],
    );
    const row = await ledger.find(payment.txnId);
    assert.deepEqual([row?.state, row?.version], ['succeeded', 2]);
    assert.deepEqual(row?.settledAt, request.settledAt);
  });

  test('a payment settled as failed moves no money', async (context) => {
    const { ledger, entries } = await open(context);
    const payment = aPayment();
    await ledger.post([pendingOf(payment)]);
    const failure = { code: 'card_declined', message: 'declined' };
    await ledger.settle(settlementOf(payment.txnId, { state: 'failed', failure }));
    assert.deepEqual(await entries(), []);
    assert.deepEqual((await ledger.find(payment.txnId))?.failure, failure);
  });

  test('of ten workers settling one payment at once, one does', async (context) => {
    const { ledger, another, entries, events } = await open(context);
    const payment = aPayment();
    await ledger.post([pendingOf(payment)]);
    const outcomes = await Promise.all(
      Array.from({ length: 10 }, (_, n) =>
        [ledger, another][n % 2]!.settle(settlementOf(payment.txnId, { state: 'succeeded' })),
      ),
    );
    assert.equal(outcomes.filter(({ outcome }) => outcome === 'settled').length, 1);
    assert.deepEqual([(await entries()).length, (await events()).length], [1, 1]);
  });

  test('a worker with a stale version, or an unknown id, writes nothing', async (context) => {
    const { ledger, entries, events } = await open(context);
    const payment = aPayment();
    await ledger.post([pendingOf(payment)]);
    const stale = { ...settlementOf(payment.txnId, { state: 'succeeded' }), version: 7 };
    assert.deepEqual(await ledger.settle(stale), { outcome: 'stale' });
    const unknown = settlementOf(aPayment().txnId, { state: 'succeeded' });
    assert.deepEqual(await ledger.settle(unknown), { outcome: 'stale' });
    assert.deepEqual([await entries(), await events()], [[], []]);
  });

  test('an end that can never be stored is unpostable, leaves the payment pending, and another end goes in', async (context) => {
    const { ledger, entries, events } = await open(context);
    const payment = aPayment({ paymentMethod: 'pm_card_visa' });
    const { txnId } = payment;
    await ledger.post([pendingOf(payment)]);
    for (const bad of ['a NUL \0', 'half a surrogate \ud800']) {
      const intent = { txnId, version: 1, provider: 'stripe', intentId: bad } as const;
      await assert.rejects(ledger.storeIntent(intent), UnpostableError, bad);
      for (const failure of [
        { code: bad, message: 'declined' },
        { code: 'card_declined', message: bad },
      ]) {
        const end = settlementOf(txnId, { state: 'failed', failure });
        await assert.rejects(ledger.settle(end), UnpostableError, bad);
      }
      const charged = { ...settlementOf(txnId, { state: 'succeeded' }), chargeId: bad };
      await assert.rejects(ledger.settle(charged), UnpostableError, bad);
    }
    const row = await ledger.find(txnId);
    assert.deepEqual([row?.state, row?.version], ['pending', 1]);
    assert.deepEqual([await entries(), await events()], [[], []]);
    const end = settlementOf(txnId, { state: 'succeeded' });
    assert.deepEqual(await ledger.settle(end), { outcome: 'settled' });
  });
}

function settlementOf(txnId: TxnId, result: Settlement) {
  return { txnId, version: 1, result, settledAt: settledNow, traceparent };
}
