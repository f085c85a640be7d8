import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { renderAccepted } from '@triplock/contracts';
import { aPayment, eventually } from '@triplock/testing';
import { ProduceRefusedError, ProduceUnknownError } from '@triplock/transport';
import { acceptTransaction, type AcceptOutcome } from './accept-transaction.ts';
import { anOrder, openTestGateway } from '../test/test-gateway.ts';
import { startBudget } from '../http/time-budget.ts';

describe('accepting a payment', () => {
  it('a first request is accepted and its retry gets the same bytes and no second record', async (t) => {
    const { parts, appended } = await openTestGateway(t);
    const payment = aPayment({ description: 'Grüße 😀', metadata: { b: '2', a: '1' } });
    const answer = renderAccepted(payment);
    const first = await acceptTransaction(parts, anOrder(payment));
    assert.deepEqual(first, { outcome: 'accepted', answer });
    const retry = await acceptTransaction(parts, anOrder({ ...payment, acceptedAt: new Date(0) }));
    assert.deepEqual(retry, { outcome: 'replayed', answer });
    assert.equal(await appended(), 1n);
  });

  it('a thousand identical requests at once append one record and never differ', async (t) => {
    const { parts, appended } = await openTestGateway(t);
    await acceptTransaction(parts, anOrder());
    const payment = aPayment();
    const outcomes = await Promise.all(
      Array.from({ length: 1_000 }, () => acceptTransaction(parts, anOrder(payment))),
    );
    const words = Map.groupBy(outcomes, ({ outcome }) => outcome);
    assert.equal(words.get('accepted')?.length, 1);
    const others = (words.get('replayed')?.length ?? 0) + (words.get('in-flight')?.length ?? 0);
    assert.equal(others, 999);
    assert.deepEqual(bodiesOf(outcomes), new Set([renderAccepted(payment).body]));
    assert.equal(await appended(), 2n);
  });

  it('another request with the same key is refused, while the first is at work and after', async (t) => {
    const { parts, appended } = await openTestGateway(t);
    const payment = aPayment();
    const other = aPayment({ key: payment.key, amount: 9_999n });
    await acceptTransaction(parts, anOrder());
    const [, meanwhile] = await Promise.all([
      acceptTransaction(parts, anOrder(payment)),
      acceptTransaction(parts, anOrder(other)),
    ]);
    assert.deepEqual(meanwhile, { outcome: 'reused' });
    assert.deepEqual(await acceptTransaction(parts, anOrder(other)), { outcome: 'reused' });
    assert.equal((await acceptTransaction(parts, anOrder(payment))).outcome, 'replayed');
    assert.equal(await appended(), 2n);
  });

  it('a claim that comes after the request was answered is let go, and a retry need not wait', async (t) => {
    const { parts } = await openTestGateway(t);
    await acceptTransaction(parts, anOrder());
    const payment = aPayment();
    const mayAnswer = Promise.withResolvers<void>();
    const claim: typeof parts.claims.claim = async (request) => {
      const outcome = await parts.claims.claim(request);
      await mayAnswer.promise;
      return outcome;
    };
    const slow = { ...parts, claims: { ...parts.claims, claim } };
    const late = await acceptTransaction(slow, { ...anOrder(payment), budget: startBudget(50) });
    assert.equal(late.outcome, 'unavailable');
    assert.equal((await acceptTransaction(parts, anOrder(payment))).outcome, 'in-flight');
    mayAnswer.resolve();
    await eventually(async () => {
      const { outcome } = await acceptTransaction(parts, anOrder(payment));
      return outcome === 'accepted';
    });
  });

  it('the key of another partner is another key', async (t) => {
    const { parts } = await openTestGateway(t);
    const key = 'order-1';
    for (const partner of ['acme', 'globex']) {
      const payment = aPayment({ partner, key });
      assert.equal((await acceptTransaction(parts, anOrder(payment))).outcome, 'accepted');
    }
  });
});

describe('accepting a payment when something breaks', () => {
  it('a record whose acknowledgement was lost is unknown, and the retry goes on at once', async (t) => {
    const { parts, catchUp } = await openTestGateway(t);
    const payment = aPayment();
    const lossy = {
      append: async (...record: Parameters<typeof parts.log.append>) => {
        await parts.log.append(...record);
        throw new ProduceUnknownError('the reply was lost');
      },
    };
    const unknown = await acceptTransaction({ ...parts, log: lossy }, anOrder(payment));
    assert.equal(unknown.outcome, 'unavailable');
    const later = { ...payment, acceptedAt: new Date(payment.acceptedAt.getTime() + 60_000) };
    assert.equal((await acceptTransaction(parts, anOrder(later))).outcome, 'accepted');
    // Both copies say the same, the time of acceptance included: guard 2 cannot tell them apart.
    const copies = await catchUp();
    assert.equal(copies.length, 2);
    assert.deepEqual(copies[0], copies[1]);
    assert.deepEqual(copies[0], payment);
  });

  it('a refused record lets its claim go, and still only for the same request', async (t) => {
    const { parts } = await openTestGateway(t);
    const payment = aPayment();
    const full = { append: () => Promise.reject(new ProduceRefusedError('full')) };
    const refused = await acceptTransaction({ ...parts, log: full }, anOrder(payment));
    assert.equal(refused.outcome, 'unavailable');
    const other = aPayment({ key: payment.key, amount: 1n });
    assert.deepEqual(await acceptTransaction(parts, anOrder(other)), { outcome: 'reused' });
    assert.equal((await acceptTransaction(parts, anOrder(payment))).outcome, 'accepted');
  });

  it('what fails after the acknowledgement takes nothing back', async (t) => {
    const { parts, appended } = await openTestGateway(t, { leaseMs: 50 });
    const payment = aPayment();
    parts.crashPoints.arm({ name: 'gateway.produced', action: { do: 'throw' } });
    const first = await acceptTransaction(parts, anOrder(payment));
    assert.equal(first.outcome, 'accepted');
    // The claim was never completed: the next owner appends a second copy and answers alike.
    const next = await eventually(async () => {
      const outcome = await acceptTransaction(parts, anOrder(payment));
      return outcome.outcome !== 'in-flight' && outcome;
    });
    assert.deepEqual(next, first);
    assert.equal(await appended(), 2n);
    assert.equal((await acceptTransaction(parts, anOrder(payment))).outcome, 'replayed');
  });

  it('an owner that stood still for longer than its lease cannot change what was answered', async (t) => {
    const { parts } = await openTestGateway(t, { leaseMs: 20 });
    const payment = aPayment();
    parts.crashPoints.arm({ name: 'gateway.produced', action: { do: 'pause', pauseMs: 200 } });
    const slow = acceptTransaction(parts, anOrder(payment));
    const fast = await eventually(async () => {
      const outcome = await acceptTransaction(parts, anOrder(payment));
      return outcome.outcome === 'accepted' && outcome;
    });
    assert.deepEqual(await slow, fast);
    assert.equal((await acceptTransaction(parts, anOrder(payment))).outcome, 'replayed');
  });

  it('a claim that nobody answers is unknown within the budget', async (t) => {
    const { parts } = await openTestGateway(t);
    const silent = { ...parts.claims, claim: () => new Promise<never>(() => undefined) };
    const begin = performance.now();
    const outcome = await acceptTransaction({ ...parts, claims: silent }, anOrder());
    assert.equal(outcome.outcome, 'unavailable');
    assert.ok(performance.now() - begin < 2_500);
  });
});

function bodiesOf(outcomes: readonly AcceptOutcome[]): Set<string> {
  return new Set(outcomes.flatMap((each) => ('answer' in each ? [each.answer.body] : [])));
}
