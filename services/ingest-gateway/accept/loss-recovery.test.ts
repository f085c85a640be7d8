import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { bucketCount, renderAccepted } from '@triplock/contracts';
import { aPayment } from '@triplock/testing';
import { acceptTransaction } from './accept-transaction.ts';
import { recoverLosses } from './loss-recovery.ts';
import { anOrder, openTestGateway } from '../test/test-gateway.ts';
import { startBudget } from '../http/time-budget.ts';
import { watchProgress } from './watch-progress.ts';
import { paymentForm } from './transaction-form.ts';

describe('a gateway whose claims were lost', () => {
  it('answers a posted payment from the ledger: the same bytes, or 422 for another body', async (t) => {
    const { parts, forgetClaims, catchUp, appended } = await openTestGateway(t);
    const payment = aPayment({ reference: 'R-1', metadata: { z: 'Ω', a: '' } });
    await acceptTransaction(parts, anOrder(payment));
    await catchUp();
    await forgetClaims();
    const retry = await acceptTransaction(parts, anOrder({ ...payment, acceptedAt: new Date() }));
    assert.deepEqual(retry, { outcome: 'replayed', answer: renderAccepted(payment) });
    const other = aPayment({ key: payment.key, amount: 1n });
    assert.deepEqual(await acceptTransaction(parts, anOrder(other)), { outcome: 'reused' });
    assert.equal(await appended(), 1n);
  });

  it('knows nothing of unposted keys until the ledger has passed the barrier', async (t) => {
    const { parts, forgetClaims, catchUp, appended } = await openTestGateway(t);
    const [payment, fresh] = [aPayment(), aPayment()];
    await acceptTransaction(parts, anOrder(payment));
    await forgetClaims();
    assert.deepEqual(await acceptTransaction(parts, anOrder(payment)), { outcome: 'cold' });
    assert.deepEqual(await acceptTransaction(parts, anOrder(fresh)), { outcome: 'cold' });
    await catchUp();
    const retry = await acceptTransaction(parts, anOrder(payment));
    assert.deepEqual(retry, { outcome: 'replayed', answer: renderAccepted(payment) });
    assert.equal((await acceptTransaction(parts, anOrder(fresh))).outcome, 'accepted');
    assert.equal((await acceptTransaction(parts, anOrder(fresh))).outcome, 'replayed');
    assert.equal(await appended(), 2n);
  });

  it('answers what is posted although the ledger is behind with the rest', async (t) => {
    const { parts, forgetClaims, catchUp } = await openTestGateway(t);
    const [posted, waiting] = [aPayment(), aPayment()];
    await acceptTransaction(parts, anOrder(posted));
    await catchUp();
    await acceptTransaction(parts, anOrder(waiting));
    await forgetClaims();
    assert.equal((await acceptTransaction(parts, anOrder(posted))).outcome, 'replayed');
    assert.equal((await acceptTransaction(parts, anOrder(waiting))).outcome, 'cold');
  });

  it('does not take the word of the ledger over another loss', async (t) => {
    const { parts, forgetClaims, catchUp, appended } = await openTestGateway(t);
    await acceptTransaction(parts, anOrder());
    await catchUp();
    await forgetClaims();
    const ledger = {
      find: async (...query: Parameters<typeof parts.ledger.find>) => {
        const found = await parts.ledger.find(...query);
        await forgetClaims();
        return found;
      },
    };
    const payment = aPayment();
    const outcome = await acceptTransaction(
      { ...parts, form: paymentForm(ledger) },
      anOrder(payment),
    );
    assert.deepEqual(outcome, { outcome: 'cold' });
    assert.equal(await appended(), 1n);
    assert.equal((await acceptTransaction(parts, anOrder(payment))).outcome, 'accepted');
  });

  it('goes on where another gateway died between epoch and barrier', async (t) => {
    const { parts, catchUp } = await openTestGateway(t);
    for (let bucket = 0; bucket < bucketCount; bucket += 1) await parts.claims.noteLoss(bucket);
    assert.equal((await acceptTransaction(parts, anOrder())).outcome, 'accepted');
    await catchUp();
  });

  it('asks the topic once, however many requests meet the loss', async (t) => {
    const { parts, offsets, forgetClaims, catchUp } = await openTestGateway(t);
    await acceptTransaction(parts, anOrder());
    await catchUp();
    await forgetClaims();
    const asked = { end: 0, committed: 0 };
    const counted = {
      ...offsets,
      end: () => ((asked.end += 1), offsets.end()),
      committed: () => ((asked.committed += 1), offsets.committed()),
    };
    const progress = watchProgress(counted);
    const onCold = () => undefined;
    const recovery = recoverLosses({ ...parts, offsets: counted, progress, onCold });
    // How soon is not what this is about, and 300 at once take a busy machine seconds.
    const patient = () => ({ ...anOrder(), budget: startBudget(60_000) });
    const outcomes = await Promise.all(
      Array.from({ length: 300 }, () => acceptTransaction({ ...parts, recovery }, patient())),
    );
    assert.deepEqual(new Set(outcomes.map(({ outcome }) => outcome)), new Set(['accepted']));
    // Once for the barrier, once to see who has passed it.
    assert.deepEqual(asked, { end: 2, committed: 1 });
  });

  it('answers that it does not know while Kafka is away, and writes nothing', async (t) => {
    const { parts, forgetClaims, catchUp } = await openTestGateway(t);
    const payment = aPayment();
    await acceptTransaction(parts, anOrder(payment));
    await catchUp();
    await forgetClaims();
    const away = {
      end: () => Promise.reject(new Error('away')),
      committed: () => Promise.reject(new Error('away')),
      since: () => Promise.reject(new Error('away')),
    };
    const progress = watchProgress(away);
    const recovery = recoverLosses({ ...parts, offsets: away, progress, onCold: () => undefined });
    const other = aPayment({ key: payment.key, amount: 1n });
    const unknown = await acceptTransaction({ ...parts, recovery }, anOrder(other));
    assert.equal(unknown.outcome, 'unavailable');
    assert.equal((await acceptTransaction(parts, anOrder(payment))).outcome, 'replayed');
  });
});

describe('a gateway that is new', () => {
  it('starts warm: the second request needs no ledger', async (t) => {
    const { parts } = await openTestGateway(t);
    await acceptTransaction(parts, anOrder());
    const ledger = { find: () => Promise.reject(new Error('PostgreSQL is away')) };
    assert.equal(
      (await acceptTransaction({ ...parts, form: paymentForm(ledger) }, anOrder())).outcome,
      'accepted',
    );
  });

  it('is cold when the topic is not empty, although the ledger is', async (t) => {
    const { parts, forgetClaims } = await openTestGateway(t);
    await acceptTransaction(parts, anOrder());
    await forgetClaims();
    assert.deepEqual(await acceptTransaction(parts, anOrder()), { outcome: 'cold' });
  });
});
