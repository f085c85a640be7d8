import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { inspect } from 'node:util';
import { aPayment, createTestStripe, type TestStripe } from '@triplock/testing';
import { Stripe } from 'stripe';
import { ProviderError } from '../provider.ts';
import { journalRowOf, openStripeJournal, type Listed } from './journal.ts';

let simulator: TestStripe;
let stopSimulator = async () => {};
before(async () => {
  simulator = await createTestStripe({ after: (stop) => void (stopSimulator = stop) });
});
after(() => stopSimulator());

const longAgo = new Date(0);

/** The journal at a simulator that has forgotten what the tests before did. */
async function aJournal({ timeoutMs = 5_000, requestsPerSecondMax = 1_000 } = {}) {
  await simulator.control('POST', '/reset');
  const { apiKey, url: apiUrl, connection } = simulator;
  return {
    journal: openStripeJournal({ apiKey, apiUrl, timeoutMs, requestsPerSecondMax }),
    stripe: new Stripe(apiKey, { ...connection, maxNetworkRetries: 0, telemetry: false }),
  };
}

test('what comes right by itself is asked again, and what does not is reported without secrets', async () => {
  const { journal } = await aJournal({ timeoutMs: 500 });
  const charges = { kind: 'charge', since: longAgo } as const;
  for (const fault of ['rate-limit', 'unavailable', 'reset', 'half-body', 'error', 'time-out']) {
    const operation = 'charges.list';
    await simulator.control('POST', '/faults', { fault, operation, count: 1, delayMs: 2_000 });
    assert.equal((await journal.list(charges)).outcome, 'page', fault);
    const { faults } = await simulator.control<{ faults: { hits: number }[] }>('GET', '/faults');
    assert.equal(faults[0]!.hits, 1, fault);
    await simulator.control('DELETE', '/faults');
  }
  await simulator.control('POST', '/faults', { fault: 'unavailable', operation: 'charges.list' });
  const failed = await journal.list(charges).catch((error: unknown) => error);
  assert.ok(failed instanceof ProviderError);
  assert.equal(failed.statusCode, 503);
  assert.ok(!inspect(failed, { depth: 9 }).includes(simulator.apiKey));
  const { faults } = await simulator.control<{ faults: { hits: number }[] }>('GET', '/faults');
  assert.equal(faults[0]!.hits, 4);
});

test('a key that is refused is not tried again', async () => {
  const connection = { apiKey: 'wrong', apiUrl: simulator.url };
  const journal = openStripeJournal({ ...connection, timeoutMs: 1_000, requestsPerSecondMax: 1 });
  const began = performance.now();
  await assert.rejects(journal.list({ kind: 'intent', since: longAgo }), { statusCode: 401 });
  assert.ok(performance.now() - began < 900);
});

test('no more requests are sent in a second than allowed', async () => {
  const { journal } = await aJournal({ requestsPerSecondMax: 50 });
  const began = performance.now();
  await Promise.all(
    Array.from({ length: 11 }, () => journal.list({ kind: 'refund', since: longAgo })),
  );
  assert.ok(performance.now() - began >= 199);
});

test('what others made is in the journal too, and is not ours', async () => {
  const { journal, stripe } = await aJournal();
  await stripe.paymentIntents.create({ amount: 500, currency: 'eur' });
  const page = await journal.list({ kind: 'intent', since: longAgo });
  assert.ok(page.outcome === 'page');
  assert.deepEqual(
    page.rows.map(({ txnId }) => txnId),
    [undefined],
  );
});

test('what lets an authorisation go gives nothing back, and a refund made by hand does', async () => {
  const { journal, stripe } = await aJournal();
  const order = { amount: 500, currency: 'eur', payment_method_types: ['card'], confirm: true };
  const hold = { ...order, capture_method: 'manual', payment_method: 'pm_card_visa' } as const;
  const [taken, left] = [
    await stripe.paymentIntents.create(hold),
    await stripe.paymentIntents.create(hold),
  ];
  await stripe.paymentIntents.capture(taken.id, { amount_to_capture: 300 });
  await stripe.paymentIntents.cancel(left.id);
  const { id } = await stripe.refunds.create({ payment_intent: taken.id, amount: 100 });
  assert.equal((await stripe.refunds.list()).data.length, 3);
  const page = await journal.list({ kind: 'refund', since: longAgo });
  assert.ok(page.outcome === 'page');
  assert.deepEqual(
    page.rows.map((row) => [row.id, row.amount]),
    [[id, 100n]],
  );
});

const { txnId } = aPayment();

const aRow = (object: object) =>
  journalRowOf({
    id: 're_1',
    object: 'refund',
    amount: 1,
    currency: 'eur',
    created: 1,
    payment_intent: 'pi_1',
    metadata: {},
    ...object,
  } as Listed);

test('a refund without a status is pending', () => {
  assert.equal(aRow({ status: null }).status, 'pending');
});

test('a status that is not known stops nobody where the object is not ours, and everybody where it is', () => {
  assert.equal(aRow({ status: 'reversed' }).status, 'unknown');
  assert.equal(aRow({ status: 'reversed', metadata: { txn_id: 'order 7' } }).status, 'unknown');
  assert.throws(() => aRow({ status: 'reversed', metadata: { txn_id: txnId } }), ProviderError);
});
