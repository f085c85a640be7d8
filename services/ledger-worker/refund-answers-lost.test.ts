import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { aRefund, createTestStripe, eventually, type TestStripe } from '@triplock/testing';
import { aCard, refundingAt } from './refunding.testing.ts';

let stripe: TestStripe;
let stopStripe = async () => {};
before(async () => {
  stripe = await createTestStripe({ after: (stop) => void (stopStripe = stop) });
});
after(() => stopStripe());

const { aRefunding, providerGaveBack, refundAtProvider } = refundingAt(() => stripe);

const faults = [
  { fault: 'reset-after' },
  { fault: 'half-body' },
  { fault: 'error-after' },
  { fault: 'reset' },
  { fault: 'unavailable' },
  { fault: 'time-out', delayMs: 3_000 },
];

test('a refund whose answer the provider loses is given back once, and holds up nobody', async (context) => {
  const { work, worker, pay, refund, cameTo, letTimePass } = await aRefunding(context);
  const impatient = work(100);
  const cards = faults.map(() => aCard());
  await pay(...cards);
  await worker.allCommitted();
  await worker.consumer.close();
  for (const [n, fault] of faults.entries()) {
    const { id } = await stripe.control<{ id: string }>('POST', '/faults', {
      ...fault,
      ...{ operation: 'refunds.create', count: 2 },
    });
    await refund(aRefund(cards[n]!, { amount: 400n }));
    await impatient.allCommitted();
    await eventually(async () => {
      await letTimePass();
      await impatient.resolve();
      assert.deepEqual(await cameTo(cards[n]!), { succeeded: 1 }, fault.fault);
      return true;
    });
    type Struck = { faults: { id: string; hits: number }[] };
    const { faults: struck } = await stripe.control<Struck>('GET', '/faults');
    assert.ok(struck.find((each) => each.id === id)!.hits > 0, fault.fault);
    await stripe.control('DELETE', `/faults/${id}`);
  }
  const { length } = faults;
  assert.deepEqual(await providerGaveBack(), { count: length, amount: 400 * length });
});

test('a refund behind a 500 that the provider keeps is asked for under no other key, and waits for the provider', async (context) => {
  const { work, worker, pay, refund, cameTo, letTimePass } = await aRefunding(context);
  const impatient = work(100);
  const [comesLate, neverCame] = [aCard(), aCard()];
  await pay(comesLate, neverCame);
  await worker.allCommitted();
  await worker.consumer.close();
  const kept = { fault: 'error', operation: 'refunds.create', count: 2 };
  const { id } = await stripe.control<{ id: string }>('POST', '/faults', kept);
  const late = aRefund(comesLate, { amount: 400n });
  await refund(late, aRefund(neverCame, { amount: 400n }));
  await impatient.allCommitted();
  const look = async () => {
    await letTimePass();
    await impatient.resolve();
  };
  for (let looks = 0; looks < 3; looks += 1) await look();
  await stripe.control('DELETE', `/faults/${id}`);
  // What was never asked for again can only be given back once, whenever the provider gets to it.
  for (const card of [comesLate, neverCame]) assert.deepEqual(await cameTo(card), { pending: 1 });
  assert.deepEqual(await providerGaveBack(), { count: 0, amount: 0 });

  const { provider } = (await worker.ledger.find(comesLate.txnId))!;
  const about = { payment_intent: provider!.intentId, 'metadata[txn_id]': late.txnId };
  await refundAtProvider({ ...about, amount: '400' });
  await look();
  assert.deepEqual(await cameTo(comesLate), { succeeded: 1 });
  assert.deepEqual(await cameTo(neverCame), { pending: 1 });
  assert.deepEqual(await providerGaveBack(), { count: 1, amount: 400 });

  await stripe.control('POST', '/clock', { advanceMs: 25 * 3_600_000 });
  await eventually(async () => {
    await look();
    assert.deepEqual(await cameTo(neverCame), { succeeded: 1 });
    return true;
  });
  assert.deepEqual(await providerGaveBack(), { count: 2, amount: 800 });
});
