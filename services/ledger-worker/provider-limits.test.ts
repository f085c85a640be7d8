import assert from 'node:assert/strict';
import { after, before, test, type TestContext } from 'node:test';
import { aPayment, createTestStripe, eventually, type TestStripe } from '@triplock/testing';
import { aPipeline, aProvider, recordOf } from './test/pipeline.ts';

// Stripe's limits by docs.stripe.com/rate-limits, lower: no test waits for thousands of cards.

let stripe: TestStripe;

let stopStripe = async () => {};
before(async () => {
  stripe = await createTestStripe({ after: (stop) => void (stopStripe = stop) });
});
after(() => stopStripe());

/** A worker at a simulator with limits, and how often that has turned its calls away. */
async function aLimited(context: TestContext, limits: Record<string, number>) {
  await stripe.control('POST', '/reset');
  await stripe.control('PUT', '/limits', limits);
  const before = await turnedAway();
  const pipeline = await aPipeline(context);
  const worker = pipeline.work({ provider: aProvider(stripe), handOverMs: 200, slotsMax: 64 });
  const pay = (partner: string, count: number) =>
    Promise.all(
      Array.from({ length: count }, async () => {
        const payment = aPayment({ partner, amount: 1_000n, paymentMethod: 'pm_card_visa' });
        await pipeline.append(recordOf(payment));
      }),
    );
  const settled = async (partnerId: string) => {
    const [row] = await pipeline.owner.query<{ count: number }>(
      `SELECT count(*)::int AS count FROM ledger.transactions
       WHERE partner_id = $1 AND state = 'succeeded'`,
      [partnerId],
    );
    return row!.count;
  };
  return { ...pipeline, worker, pay, settled, refused: async () => (await turnedAway()) - before };
}

async function turnedAway(): Promise<number> {
  type Answer = { refused: Record<string, number> };
  const { refused } = await stripe.control<Answer>('GET', '/limits');
  return Object.values(refused).reduce((sum, count) => sum + count, 0);
}

async function charged() {
  type Audit = { chargedTwice: unknown[]; charges: Record<string, { count: number }> };
  const audit = await stripe.control<Audit>('GET', '/audit?metadata_key=txn_id');
  assert.deepEqual(audit.chargedTwice, []);
  return audit.charges['eur']?.count ?? 0;
}

const withinMs = 18_000;

for (const [name, limit] of [
  ['perSecond', 40],
  ['perSecondOfEach', 40],
  ['atOnce', 4],
] as const) {
  test(`a burst ends at the limit of the provider, which turns few calls away: ${name} ${limit}`, async (context) => {
    const { pay, settled, refused } = await aLimited(context, { [name]: limit });
    const cards = 300;
    await pay('acme', cards);
    // None waits for the resolver, which does not run here.
    const isAll = async () => (await settled('acme')) === cards;
    await eventually(isAll, { withinMs, what: 'the end of every card' });
    assert.equal(await charged(), cards);
    const times = await refused();
    assert.ok(times > 0, 'the limit was never met');
    assert.ok(times <= cards / 2, `${times} calls were turned away for ${cards} cards`);
  });
}

test('the cards of one partner wait behind no crowd of another, in one partition', async (context) => {
  const { pay, settled } = await aLimited(context, { perSecond: 40 });
  await pay('acme', 400);
  await pay('globex', 5);
  const isAll = async () => (await settled('globex')) === 5;
  await eventually(isAll, { withinMs, what: 'the end of five cards' });
  const before = await settled('acme');
  assert.ok(before < 200, `${before} of 400 went first`);
  const goesOn = async () => (await settled('acme')) > before;
  await eventually(goesOn, { withinMs, what: 'the next of the crowd' });
});
