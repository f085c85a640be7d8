import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { renderAcceptedRefund } from '@triplock/contracts';
import type { AcceptedRefund } from '@triplock/payments';
import { aPayment, aRefund } from '@triplock/testing';
import { acceptRefund } from './accept-refund.ts';
import { acceptTransaction } from './accept-transaction.ts';
import { anOrder, openTestGateway, orderOf } from '../test/test-gateway.ts';
import { paymentForm, refundForm } from './transaction-form.ts';

const away = { find: () => Promise.reject(new Error('PostgreSQL is away')) };

async function openRefunds(t: TestContext) {
  const gateway = await openTestGateway(t);
  const { parts: payments } = gateway;
  const parts = { ...payments, form: refundForm(payments.refunds), payments };
  const pay = async (wish: Parameters<typeof aPayment>[0] = {}) => {
    const payment = aPayment(wish);
    const { outcome } = await acceptTransaction(payments, anOrder(payment));
    assert.equal(outcome, 'accepted');
    return payment;
  };
  const give = (refund: AcceptedRefund, otherwise: Partial<typeof parts> = {}) =>
    acceptRefund({ ...parts, ...otherwise }, orderOf(refund));
  return { ...gateway, payments, pay, give };
}

test('a refund right after its payment is accepted behind it, and a retry gets the same bytes', async (t) => {
  const { pay, give, appended, catchUp } = await openRefunds(t);
  const payment = await pay();
  const refund = aRefund(payment, { amount: 50n, reason: 'Grüße 😀' });
  const answer = renderAcceptedRefund(refund);
  assert.deepEqual(await give(refund), { outcome: 'accepted', answer });
  const retry = await give({ ...refund, acceptedAt: new Date(0) });
  assert.deepEqual(retry, { outcome: 'replayed', answer });
  assert.equal(await appended(), 2n);
  // One partition, in this order: the topic's other partition is empty.
  assert.deepEqual(await catchUp(), [payment, refund]);
});

test('a hundred identical refunds at once append one record and never differ', async (t) => {
  const { pay, give, appended } = await openRefunds(t);
  const refund = aRefund(await pay());
  const outcomes = await Promise.all(Array.from({ length: 100 }, () => give(refund)));
  const words = Map.groupBy(outcomes, ({ outcome }) => outcome);
  assert.equal(words.get('accepted')?.length, 1);
  const others = (words.get('replayed')?.length ?? 0) + (words.get('in-flight')?.length ?? 0);
  assert.equal(others, 99);
  assert.equal(await appended(), 2n);
});

test("a refund's keys are its own: another refund is refused, a payment of that key is not meant", async (t) => {
  const { pay, give } = await openRefunds(t);
  const [payment, another] = [await pay({ key: 'order-1' }), await pay()];
  const first = await give(aRefund(payment, { key: 'order-1', amount: 50n }));
  assert.equal(first.outcome, 'accepted');
  for (const other of [
    aRefund(payment, { key: 'order-1', amount: 51n }),
    aRefund(payment, { key: 'order-1' }),
    aRefund(another, { key: 'order-1', amount: 50n }),
  ]) {
    assert.deepEqual(await give(other), { outcome: 'reused' });
  }
});

test("nobody's payment and another partner's are not found, and use up no key", async (t) => {
  const { pay, give, appended, catchUp } = await openRefunds(t);
  const [mine, theirs] = [await pay(), await pay({ partner: 'globex' })];
  const posted = await pay({ partner: 'globex' });
  await catchUp();
  for (const payment of [theirs, posted, aPayment()]) {
    const refund = aRefund(payment, { partner: 'acme', key: 'order-1' });
    assert.deepEqual(await give(refund), { outcome: 'not-found' });
  }
  assert.equal(await appended(), 3n);
  assert.equal((await give(aRefund(mine, { key: 'order-1' }))).outcome, 'accepted');
});

test('the retry of a refund needs no ledger, however old its payment is', async (t) => {
  const { payments, pay, give, expireClaim, appended, catchUp } = await openRefunds(t);
  const payment = await pay();
  await catchUp();
  const refund = aRefund(payment, { amount: 50n });
  const { outcome } = await give(refund);
  assert.equal(outcome, 'accepted');
  assert.ok(await expireClaim(payment.txnId));
  const blind = { form: refundForm(away), payments: { ...payments, form: paymentForm(away) } };
  const answer = renderAcceptedRefund(refund);
  assert.deepEqual(await give(refund, blind), { outcome: 'replayed', answer });
  const other = aRefund(payment, { key: refund.key, amount: 51n });
  assert.deepEqual(await give(other, blind), { outcome: 'reused' });
  assert.equal((await give(aRefund(payment), blind)).outcome, 'unavailable');
  assert.equal(await appended(), 2n);
});

test('a payment of today needs no ledger to be refunded, an older one does', async (t) => {
  const { payments, pay, give, forgetClaims, appended, catchUp } = await openRefunds(t);
  const payment = await pay();
  const blind = { form: refundForm(away), payments: { ...payments, form: paymentForm(away) } };
  assert.equal((await give(aRefund(payment), blind)).outcome, 'accepted');
  await catchUp();
  await forgetClaims();
  const refund = aRefund(payment);
  assert.equal((await give(refund, blind)).outcome, 'unavailable');
  assert.equal(await appended(), 2n);
  assert.equal((await give(refund)).outcome, 'accepted');
});

test('a gateway whose claims were lost knows nothing of refunds and payments until the ledger has caught up', async (t) => {
  const { pay, give, forgetClaims, appended, catchUp } = await openRefunds(t);
  const payment = await pay();
  const refund = aRefund(payment, { amount: 50n, reason: 'Ω' });
  const [fresh, lost] = [aRefund(payment), aRefund(aPayment())];
  const { outcome } = await give(refund);
  assert.equal(outcome, 'accepted');
  await forgetClaims();
  for (const each of [refund, fresh, lost]) assert.deepEqual(await give(each), { outcome: 'cold' });
  await catchUp();
  const answer = renderAcceptedRefund(refund);
  assert.deepEqual(await give(refund), { outcome: 'replayed', answer });
  const other = aRefund(payment, { key: refund.key, amount: 51n });
  assert.deepEqual(await give(other), { outcome: 'reused' });
  assert.deepEqual(await give(lost), { outcome: 'not-found' });
  assert.equal((await give(fresh)).outcome, 'accepted');
  assert.equal(await appended(), 3n);
});
