import assert from 'node:assert/strict';
import { describe, it, test, type TestContext } from 'node:test';
import { renderAccepted, renderAcceptedFollowUp } from '@triplock/contracts';
import type { ClaimRequest } from '@triplock/claims';
import type { AcceptedFollowUp } from '@triplock/payments';
import { startBudget } from '@triplock/runtime';
import { aPayment, aRefund, eventually } from '@triplock/testing';
import { ProduceRefusedError, ProduceUnknownError } from '@triplock/transport';
import type { Gateway } from '../gateway.ts';
import { anOrder, aPaymentBeside, aRefundOrder, openTestGateway } from '../test/gateway.ts';
import { acceptTransaction, type AcceptOutcome } from './accept-transaction.ts';
import { claimOf } from './transaction.ts';

describe('accepting a payment', () => {
  it('a first request is accepted and its retry gets the same bytes and no second record', async (t) => {
    const { gateway, appended } = await openTestGateway(t);
    const payment = aPayment({ description: 'Grüße 😀', metadata: { b: '2', a: '1' } });
    const answer = renderAccepted(payment);
    const first = await acceptTransaction(gateway, anOrder(payment));
    assert.deepEqual(first, { outcome: 'accepted', answer });
    const retry = await acceptTransaction(
      gateway,
      anOrder({ ...payment, acceptedAt: new Date(0) }),
    );
    assert.deepEqual(retry, { outcome: 'replayed', answer });
    assert.equal(await appended(), 1n);
  });

  it('hundreds of identical requests at once append one record and never differ', async (t) => {
    const { gateway, appended } = await openTestGateway(t);
    await acceptTransaction(gateway, anOrder());
    const payment = aPayment();
    // As many as a busy machine answers within their budgets, behind which an append is unknown.
    const outcomes = await Promise.all(
      Array.from({ length: 300 }, () => acceptTransaction(gateway, anOrder(payment))),
    );
    const words = Map.groupBy(outcomes, ({ outcome }) => outcome);
    assert.equal(words.get('accepted')?.length, 1);
    const others = (words.get('replayed')?.length ?? 0) + (words.get('in-flight')?.length ?? 0);
    assert.equal(others, 299);
    assert.deepEqual(bodiesOf(outcomes), new Set([renderAccepted(payment).body]));
    assert.equal(await appended(), 2n);
  });

  it('another request with the same key is refused, while the first is at work and after', async (t) => {
    const { gateway, appended } = await openTestGateway(t);
    const payment = aPayment();
    const other = aPayment({ key: payment.key, amount: 9_999n });
    await acceptTransaction(gateway, anOrder());
    const [, meanwhile] = await Promise.all([
      acceptTransaction(gateway, anOrder(payment)),
      acceptTransaction(gateway, anOrder(other)),
    ]);
    assert.deepEqual(meanwhile, { outcome: 'reused' });
    assert.deepEqual(await acceptTransaction(gateway, anOrder(other)), { outcome: 'reused' });
    assert.equal((await acceptTransaction(gateway, anOrder(payment))).outcome, 'replayed');
    assert.equal(await appended(), 2n);
  });

  it('what a newer gateway answered in a form that is not known here is asked for again, and never answered in another', async (t) => {
    const { gateway, appended } = await openTestGateway(t);
    await acceptTransaction(gateway, anOrder());
    const payment = aPayment();
    const byNewer = async (request: ClaimRequest) =>
      gateway.claims.claim({ ...request, responseVersion: 99 });
    const newer = { ...gateway, claims: { ...gateway.claims, claim: byNewer } };
    assert.equal((await acceptTransaction(newer, anOrder(payment))).outcome, 'unavailable');
    const claim = await gateway.claims.claim(claimOf(payment));
    assert.ok(claim.outcome === 'claimed' && claim.responseVersion === 99);
    await gateway.claims.complete({ ...payment, token: claim.token });
    assert.equal((await acceptTransaction(gateway, anOrder(payment))).outcome, 'unavailable');
    assert.equal(await appended(), 1n);
  });

  it('a claim that comes after the request was answered is released, and a retry need not wait', async (t) => {
    const { gateway } = await openTestGateway(t);
    await acceptTransaction(gateway, anOrder());
    const payment = aPayment();
    const mayAnswer = Promise.withResolvers<void>();
    const claim: typeof gateway.claims.claim = async (request) => {
      const outcome = await gateway.claims.claim(request);
      await mayAnswer.promise;
      return outcome;
    };
    const slow = { ...gateway, claims: { ...gateway.claims, claim } };
    const late = await acceptTransaction(slow, { ...anOrder(payment), budget: startBudget(50) });
    assert.equal(late.outcome, 'unavailable');
    assert.equal((await acceptTransaction(gateway, anOrder(payment))).outcome, 'in-flight');
    mayAnswer.resolve();
    await eventually(async () => {
      const { outcome } = await acceptTransaction(gateway, anOrder(payment));
      return outcome === 'accepted';
    });
  });

  it('the key of another partner is another key', async (t) => {
    const { gateway } = await openTestGateway(t);
    const key = 'order-1';
    for (const partner of ['acme', 'globex']) {
      const payment = aPayment({ partner, key });
      assert.equal((await acceptTransaction(gateway, anOrder(payment))).outcome, 'accepted');
    }
  });
});

describe('accepting a payment when something breaks', () => {
  it('a record whose acknowledgement was lost is unknown, and the retry goes on at once', async (t) => {
    const { gateway, catchUp } = await openTestGateway(t);
    const payment = aPayment();
    const lossy = {
      ...gateway.log,
      append: async (...record: Parameters<typeof gateway.log.append>) => {
        await gateway.log.append(...record);
        throw new ProduceUnknownError('the reply was lost');
      },
    };
    const unknown = await acceptTransaction({ ...gateway, log: lossy }, anOrder(payment));
    assert.equal(unknown.outcome, 'unavailable');
    const later = { ...payment, acceptedAt: new Date(payment.acceptedAt.getTime() + 60_000) };
    assert.equal((await acceptTransaction(gateway, anOrder(later))).outcome, 'accepted');
    // Both copies say the same, the time of acceptance included: guard 2 cannot tell them apart.
    const copies = await catchUp();
    assert.equal(copies.length, 2);
    assert.deepEqual(copies[0], copies[1]);
    assert.deepEqual(copies[0], payment);
  });

  it('a refused record lets its claim go, and still only for the same request', async (t) => {
    const { gateway } = await openTestGateway(t);
    const payment = aPayment();
    const full = { ...gateway.log, append: () => Promise.reject(new ProduceRefusedError('full')) };
    const refused = await acceptTransaction({ ...gateway, log: full }, anOrder(payment));
    assert.equal(refused.outcome, 'unavailable');
    const other = aPayment({ key: payment.key, amount: 1n });
    assert.deepEqual(await acceptTransaction(gateway, anOrder(other)), { outcome: 'reused' });
    assert.equal((await acceptTransaction(gateway, anOrder(payment))).outcome, 'accepted');
  });

  it('what fails after the acknowledgement takes nothing back', async (t) => {
    const { gateway, appended } = await openTestGateway(t, { leaseMs: 50 });
    const payment = aPayment();
    gateway.crashPoints.arm({ name: 'gateway.produced', action: { do: 'throw' } });
    const first = await acceptTransaction(gateway, anOrder(payment));
    assert.equal(first.outcome, 'accepted');
    // The claim was never completed: the next owner appends a second copy and answers alike.
    const next = await eventually(async () => {
      const outcome = await acceptTransaction(gateway, anOrder(payment));
      return outcome.outcome !== 'in-flight' && outcome;
    });
    assert.deepEqual(next, first);
    assert.equal(await appended(), 2n);
    assert.equal((await acceptTransaction(gateway, anOrder(payment))).outcome, 'replayed');
  });

  it('an owner that stood still for longer than its lease cannot change what was answered', async (t) => {
    const { gateway } = await openTestGateway(t, { leaseMs: 20 });
    const payment = aPayment();
    gateway.crashPoints.arm({ name: 'gateway.produced', action: { do: 'pause', pauseMs: 200 } });
    const slow = acceptTransaction(gateway, anOrder(payment));
    const fast = await eventually(async () => {
      const outcome = await acceptTransaction(gateway, anOrder(payment));
      return outcome.outcome === 'accepted' && outcome;
    });
    assert.deepEqual(await slow, fast);
    assert.equal((await acceptTransaction(gateway, anOrder(payment))).outcome, 'replayed');
  });

  it('one that stood still after its claim until its time was over appends nothing', async (t) => {
    const { gateway, appended } = await openTestGateway(t);
    await acceptTransaction(gateway, anOrder());
    const budget = startBudget(1_000);
    const isSpent = async () => {
      try {
        return void budget.require('it');
      } catch {
        return true;
      }
    };
    const reached = async (point: string) => {
      if (point === 'gateway.claimed') await eventually(isSpent);
    };
    const still = { ...gateway, crashPoints: { ...gateway.crashPoints, reached } };
    const { outcome } = await acceptTransaction(still, { ...anOrder(aPayment()), budget });
    assert.equal(outcome, 'unavailable');
    assert.equal(await appended(), 1n);
  });

  it('a claim that nobody answers is unknown within the budget', async (t) => {
    const { gateway } = await openTestGateway(t);
    const silent = { ...gateway.claims, claim: () => new Promise<never>(() => undefined) };
    const begin = performance.now();
    const outcome = await acceptTransaction({ ...gateway, claims: silent }, anOrder());
    assert.equal(outcome.outcome, 'unavailable');
    assert.ok(performance.now() - begin < 2_500);
  });
});

function bodiesOf(outcomes: readonly AcceptOutcome[]): Set<string> {
  return new Set(outcomes.flatMap((each) => ('answer' in each ? [each.answer.body] : [])));
}

async function openRefunds(t: TestContext) {
  const opened = await openTestGateway(t);
  const { gateway } = opened;
  const pay = async (wish: Parameters<typeof aPayment>[0] = {}) => {
    const payment = aPayment(wish);
    const { outcome } = await acceptTransaction(gateway, anOrder(payment));
    assert.equal(outcome, 'accepted');
    return payment;
  };
  const give = (refund: AcceptedFollowUp, by: Gateway = gateway) =>
    acceptTransaction(by, aRefundOrder(refund));
  const find = () => Promise.reject(new Error('PostgreSQL is away'));
  const blind = {
    ...gateway,
    ledger: { ...gateway.ledger, find },
    refunds: { ...gateway.refunds, find },
  };
  return { ...opened, blind, pay, give };
}

test('a refund right after its payment is accepted behind it, and a retry gets the same bytes', async (t) => {
  const { pay, give, appended, catchUp } = await openRefunds(t);
  const payment = await pay();
  const refund = aRefund(payment, { amount: 50n, reason: 'Grüße 😀' });
  const answer = renderAcceptedFollowUp(refund);
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
  const { blind, pay, give, expireClaim, appended, catchUp } = await openRefunds(t);
  const payment = await pay();
  await catchUp();
  const refund = aRefund(payment, { amount: 50n });
  const { outcome } = await give(refund);
  assert.equal(outcome, 'accepted');
  assert.ok(await expireClaim(payment.txnId));
  const answer = renderAcceptedFollowUp(refund);
  assert.deepEqual(await give(refund, blind), { outcome: 'replayed', answer });
  const other = aRefund(payment, { key: refund.key, amount: 51n });
  assert.deepEqual(await give(other, blind), { outcome: 'reused' });
  assert.equal((await give(aRefund(payment), blind)).outcome, 'unavailable');
  assert.equal(await appended(), 2n);
});

test('a payment of today needs no ledger to be refunded, an older one does', async (t) => {
  const { blind, pay, give, forgetClaims, appended, catchUp } = await openRefunds(t);
  const payment = await pay();
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
  const [fresh, lost] = [aRefund(payment), aRefund(aPaymentBeside(payment))];
  const { outcome } = await give(refund);
  assert.equal(outcome, 'accepted');
  await forgetClaims();
  for (const each of [refund, fresh, lost]) assert.deepEqual(await give(each), { outcome: 'cold' });
  await catchUp();
  const answer = renderAcceptedFollowUp(refund);
  assert.deepEqual(await give(refund), { outcome: 'replayed', answer });
  const other = aRefund(payment, { key: refund.key, amount: 51n });
  assert.deepEqual(await give(other), { outcome: 'reused' });
  assert.deepEqual(await give(lost), { outcome: 'not-found' });
  assert.equal((await give(fresh)).outcome, 'accepted');
  assert.equal(await appended(), 3n);
});
