import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { AcceptedFollowUp, AcceptedPayment, TxnId } from '@triplock/payments';
import { aPayment, aRefund, createTestDatabase } from '@triplock/testing';
import { bookTransferOf, pendingOf, posting, settledNow, traceparent } from '../test/under-test.ts';
import { openPostgresFollowUps } from './follow-ups.ts';
import { openPostgresLedger } from './payments.ts';

async function openForLocks(context: TestContext) {
  const store = await createTestDatabase(context);
  const database = store.open('triplock_ledger');
  const followUps = openPostgresFollowUps(database);
  const owner = store.open();
  const post = (one: AcceptedFollowUp) => followUps.post(posting(one));
  /** Does the work while somebody has a row. */
  const whileLocked = (txnId: TxnId, work: () => Promise<void>) =>
    owner.transaction(async (tx) => {
      await tx.query('SELECT FROM ledger.transactions WHERE txn_id = $1 FOR UPDATE', [txnId]);
      await work();
    });
  /** Which of them are due within a second. */
  const dueSoon = async (...those: AcceptedFollowUp[]) => {
    const rows = await owner.query<{ soon: boolean }>(
      `SELECT due_at <= now() + interval '1 second' AS soon
       FROM unnest($1::uuid[]) WITH ORDINALITY AS asked (txn_id, nth)
       JOIN ledger.transactions USING (txn_id) ORDER BY nth`,
      [those.map(({ txnId }) => txnId)],
    );
    return rows.map(({ soon }) => soon);
  };
  return { owner, ledger: openPostgresLedger(database), followUps, post, whileLocked, dueSoon };
}

const waiting = { outcome: 'waiting' };
const at = (n: number) => ({ acceptedAt: new Date(Date.now() + n) });

test('refunds of a payment that somebody has are posted, due soon, and decided in their order afterwards', async (context) => {
  const { ledger, followUps, post, whileLocked, dueSoon } = await openForLocks(context);
  const payment = aPayment({ amount: 100n });
  await ledger.post([bookTransferOf(payment)]);
  const [first, rest, late] = [{ amount: 30n }, {}, { amount: 1n }].map((wish, n) =>
    aRefund(payment, { ...wish, ...at(n) }),
  ) as [AcceptedFollowUp, AcceptedFollowUp, AcceptedFollowUp];
  await whileLocked(payment.txnId, async () => {
    for (const each of [first, rest]) assert.deepEqual(await post(each), waiting);
    // Looked at again it waits as it did.
    assert.deepEqual(await post(first), waiting);
    assert.deepEqual(await dueSoon(first, rest), [true, true]);
  });
  for (const behind of [rest, late]) assert.deepEqual(await post(behind), waiting);
  const succeeded = { outcome: 'settled', state: 'succeeded' };
  for (const each of [first, rest]) assert.deepEqual(await post(each), succeeded);
  assert.deepEqual(await post(late), { outcome: 'settled', state: 'failed' });
  const amounts = [first, rest].map(async ({ txnId }) => (await followUps.find(txnId))?.money);
  assert.deepEqual(
    (await Promise.all(amounts)).map((money) => money?.amount),
    [30n, 70n],
  );
});

async function anAuthorized(ledger: ReturnType<typeof openPostgresLedger>) {
  const payment: AcceptedPayment = aPayment({ amount: 100n, paymentMethod: 'pm_card_visa' });
  const { txnId } = payment;
  await ledger.post([pendingOf(payment)]);
  await ledger.storeIntent({ txnId, version: 1, provider: 'stripe', intentId: 'pi_1' });
  await ledger.authorize({ txnId, version: 2, traceparent, hold: 'stands' });
  return payment;
}

test('a capture of a payment that somebody has waits, and a cancellation after it does not overtake it', async (context) => {
  const { ledger, post, whileLocked, dueSoon } = await openForLocks(context);
  const payment = await anAuthorized(ledger);
  const capture = aRefund(payment, { kind: 'capture', ...at(0) });
  const cancellation = aRefund(payment, { kind: 'cancellation', ...at(1) });
  await whileLocked(payment.txnId, async () => {
    for (const each of [capture, cancellation]) assert.deepEqual(await post(each), waiting);
    assert.deepEqual(await dueSoon(capture, cancellation), [true, true]);
  });
  assert.deepEqual(await post(cancellation), waiting);
  assert.equal((await post(capture)).outcome, 'unfinished');
  assert.equal((await ledger.find(payment.txnId))?.closedBy, capture.txnId);
});

test('a refund of which the provider has to be asked first is due at once, and once looked at as late as any other', async (context) => {
  const { owner, ledger, post, dueSoon } = await openForLocks(context);
  const payment = aPayment({ amount: 100n, paymentMethod: 'pm_card_visa' });
  const { txnId } = payment;
  await ledger.post([pendingOf(payment)]);
  await ledger.storeIntent({ txnId, version: 1, provider: 'stripe', intentId: 'pi_1' });
  const result = { state: 'succeeded' as const };
  const end = { traceparent, settledAt: settledNow, result, chargeId: 'ch_1' };
  await ledger.settle({ txnId, version: 2, ...end });
  await owner.query('INSERT INTO ledger.rewinds (since) VALUES (now())');
  const refund = aRefund(payment);
  const unasked = { outcome: 'unasked', paymentId: txnId };
  assert.deepEqual(await post(refund), unasked);
  assert.deepEqual(await dueSoon(refund), [true]);
  // Whoever takes it up puts it off; the provider does not answer, and it is looked at again.
  const putOff = `UPDATE ledger.transactions
    SET due_at = now() + interval '1 hour', version = version + 1 WHERE txn_id = $1`;
  await owner.query(putOff, [refund.txnId]);
  assert.deepEqual(await post(refund), unasked);
  assert.deepEqual(await dueSoon(refund), [false]);
});

test('a refund whose own row somebody has is theirs to finish, and nobody waits for it', async (context) => {
  const { ledger, post, whileLocked } = await openForLocks(context);
  const payment = aPayment({ amount: 100n });
  const refund = aRefund(payment, { amount: 30n });
  assert.deepEqual(await post(refund), waiting);
  await ledger.post([pendingOf(payment)]);
  await ledger.settle({
    txnId: payment.txnId,
    version: 1,
    traceparent,
    settledAt: settledNow,
    result: { state: 'succeeded' },
  });
  await whileLocked(refund.txnId, async () => assert.deepEqual(await post(refund), waiting));
  assert.deepEqual(await post(refund), { outcome: 'settled', state: 'succeeded' });
});
