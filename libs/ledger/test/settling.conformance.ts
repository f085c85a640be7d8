import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { Settlement, TxnId } from '@triplock/payments';
import { aPayment } from '@triplock/testing';
import { pendingOf, settledNow, traceparent } from './example-postings.ts';
import type { LedgerUnderTest } from './under-test.ts';

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
}

function settlementOf(txnId: TxnId, result: Settlement) {
  return { txnId, version: 1, result, settledAt: settledNow, traceparent };
}
