import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Stripe } from 'stripe';
import { aSimulator } from './test/simulator.ts';

// https://docs.stripe.com/api/pagination and https://docs.stripe.com/search

const order = { amount: 500, currency: 'eur', payment_method_types: ['card'] };
const ids = ({ data }: { data: { id: string }[] }) => data.map(({ id }) => id);

/** Ids of so many intents, newest first. */
async function intents(stripe: Stripe, count: number): Promise<string[]> {
  const made: string[] = [];
  for (let place = 0; place < count; place += 1) {
    const metadata = { place: String(place), parity: place % 2 === 0 ? 'even' : 'odd' };
    made.unshift(
      (await stripe.paymentIntents.create({ ...order, amount: 500 + place, metadata })).id,
    );
  }
  return made;
}

test('a list is newest first and is paged in both directions', async (t) => {
  const { stripe } = await aSimulator(t);
  const made = await intents(stripe, 12);
  const first = await stripe.paymentIntents.list();
  assert.deepEqual([ids(first), first.has_more], [made.slice(0, 10), true]);
  const next = await stripe.paymentIntents.list({ limit: 5, starting_after: made[9]! });
  assert.deepEqual([ids(next), next.has_more], [made.slice(10), false]);
  const back = await stripe.paymentIntents.list({ limit: 3, ending_before: made[9]! });
  assert.deepEqual([ids(back), back.has_more], [made.slice(6, 9), true]);
  const top = await stripe.paymentIntents.list({ limit: 100, ending_before: made[2]! });
  assert.deepEqual([ids(top), top.has_more], [made.slice(0, 2), false]);
});

test('a page stays the same page while newer objects come', async (t) => {
  const { stripe } = await aSimulator(t);
  const made = await intents(stripe, 4);
  await intents(stripe, 3);
  const page = await stripe.paymentIntents.list({ limit: 2, starting_after: made[1]! });
  assert.deepEqual(ids(page), made.slice(2));
});

test('limits and cursors that make no sense are refused', async (t) => {
  const { stripe } = await aSimulator(t);
  const [newest] = await intents(stripe, 1);
  for (const wrong of [
    { limit: 0 },
    { limit: 101 },
    { starting_after: 'pi_unknown' },
    { starting_after: newest!, ending_before: newest! },
  ]) {
    await assert.rejects(
      stripe.paymentIntents.list(wrong),
      { statusCode: 400 },
      JSON.stringify(wrong),
    );
  }
});

test('a list can be of a span of time', async (t) => {
  const { stripe, control } = await aSimulator(t);
  const [early] = await intents(stripe, 1);
  const { created } = await stripe.paymentIntents.retrieve(early!);
  await control('POST', '/clock', { advanceMs: 3_600_000 });
  const [late] = await intents(stripe, 1);
  assert.deepEqual(ids(await stripe.paymentIntents.list({ created: { gt: created } })), [late]);
  assert.deepEqual(ids(await stripe.paymentIntents.list({ created: { lte: created } })), [early]);
  assert.deepEqual(ids(await stripe.paymentIntents.list({ created })), [early]);
});

test('what a list shows can be expanded', async (t) => {
  const { stripe } = await aSimulator(t);
  await stripe.paymentIntents.create({ ...order, payment_method: 'pm_card_visa', confirm: true });
  const { data } = await stripe.paymentIntents.list({ expand: ['data.latest_charge'] });
  assert.partialDeepStrictEqual(data[0]?.latest_charge, { object: 'charge' });
});

test('"don\'t use search for read-after-write flows": it lags behind, the lists do not', async (t) => {
  const { stripe, control } = await aSimulator(t, { dials: { searchLagMs: 60_000 } });
  const { id } = await stripe.paymentIntents.create({
    ...order,
    metadata: { txn_id: 't-1' },
    payment_method: 'pm_card_visa',
  });
  const query = "metadata['txn_id']:'t-1'";
  const search = async () => (await stripe.paymentIntents.search({ query })).data;
  assert.deepEqual(await search(), []);
  assert.deepEqual(ids(await stripe.paymentIntents.list()), [id]);
  await control('POST', '/clock', { advanceMs: 60_000 });
  await stripe.paymentIntents.confirm(id);
  // Found now, and as it was a minute ago.
  assert.deepEqual(
    (await search()).map(({ status }) => status),
    ['requires_confirmation'],
  );
  await control('POST', '/clock', { advanceMs: 60_000 });
  assert.deepEqual(
    (await search()).map(({ status }) => status),
    ['succeeded'],
  );
});

test('the query language: fields, operators, AND, OR, negation', async (t) => {
  const { stripe } = await aSimulator(t);
  const made = (await intents(stripe, 4)).reverse();
  await stripe.paymentIntents.cancel(made[3]!);
  const table = [
    ["metadata['place']:'2'", [2]],
    ['metadata["place"]:"2"', [2]],
    ["metadata['parity']:'even'", [0, 2]],
    ["-metadata['parity']:'even'", [1, 3]],
    ["metadata['absent']:null", [0, 1, 2, 3]],
    ["-metadata['place']:null AND amount>501", [2, 3]],
    ['amount>=501 AND amount<503', [1, 2]],
    ["amount:500 OR status:'canceled'", [0, 3]],
    ["currency:'eur' status:'canceled'", [3]],
    ["metadata['parity']~'eve'", [0, 2]],
    ["metadata['place']:'it\\'s'", []],
  ] as const;
  for (const [query, places] of table) {
    const found = ids(await stripe.paymentIntents.search({ query }));
    assert.deepEqual(
      found.reverse(),
      places.map((place) => made[place]),
      query,
    );
  }
  for (const wrong of ['', 'nonsense', 'colour:"red"', "amount>1 AND amount<9 OR currency:'eur'"]) {
    await assert.rejects(
      stripe.paymentIntents.search({ query: wrong }),
      { statusCode: 400 },
      wrong,
    );
  }
});
