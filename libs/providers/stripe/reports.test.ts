import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { inspect } from 'node:util';
import { aPayment, createTestStripe, type TestStripe } from '@triplock/testing';
import Stripe from 'stripe';
import { ProviderError } from '@triplock/provider';
import { journalRowOf, openStripeJournal, type Listed } from './journal.ts';
import { readStripeEvent, stripeModeOf } from './webhooks.ts';

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

const secret = 'whsec_test';
const mode = 'test' as const;
const succeeded = 'payment_intent.succeeded';

type Wish = { ageSeconds?: number; by?: string; event?: object };

/** A webhook as Stripe sends it, signed `ageSeconds` ago. */
function aWebhook(object: object, { ageSeconds = 0, by = secret, event = {} }: Wish = {}) {
  const sent = { id: 'evt_1', object: 'event', type: succeeded, livemode: false };
  const payload = JSON.stringify({ ...sent, data: { object }, ...event });
  const timestamp = Math.floor(Date.now() / 1_000) - ageSeconds;
  const signed = { payload, secret: by, timestamp };
  const signature = Stripe.webhooks.generateTestHeaderString(signed);
  return { body: Buffer.from(payload), signature, secrets: [secret], mode };
}

const intent = { id: 'pi_1' };

test('an event names the intent that has something new, its own or its refund’s', () => {
  for (const object of [intent, { id: 're_1', payment_intent: 'pi_1' }]) {
    assert.deepEqual(readStripeEvent(aWebhook(object)), {
      outcome: 'event',
      event: { id: 'evt_1', type: succeeded, intentId: 'pi_1' },
    });
  }
});

test('an id that is none of Stripe’s names no intent', () => {
  for (const id of ['pi_1\0', `pi_${'1'.repeat(300)}`, 'ch_1', 7]) {
    assert.deepEqual(readStripeEvent(aWebhook({ id })), { outcome: 'ignored', type: succeeded });
  }
});

test('a refund that failed is named where it is ours, and no other', () => {
  const txnId = 'ac9e6ca4-56af-8f69-b03a-5091bfa5953a';
  const failed = { id: 're_1', object: 'refund', status: 'failed', payment_intent: 'pi_1' };
  const named = (object: object) => {
    const read = readStripeEvent(aWebhook({ ...failed, metadata: { txn_id: txnId }, ...object }));
    return read.outcome === 'event' ? read.event.failedRefund : read.outcome;
  };
  assert.deepEqual(named({}), { refundId: 're_1', txnId });
  for (const other of [{ metadata: null }, { metadata: { txn_id: 'order 7' } }, { id: 7 }]) {
    assert.equal(named(other), undefined);
  }
  for (const status of ['succeeded', 'pending', null]) assert.equal(named({ status }), undefined);
});

test('a dispute is named from its beginning and from its end, with what is wanted back', () => {
  const money = { amount: 250, currency: 'eur' };
  const dispute = { id: 'du_1', object: 'dispute', ...money, reason: 'fraudulent' };
  const about = { charge: 'ch_1', payment_intent: 'pi_1', evidence_details: { due_by: 86_400 } };
  const ofIntent = { ...dispute, ...about, status: 'lost' };
  for (const type of ['charge.dispute.created', 'charge.dispute.closed']) {
    const read = readStripeEvent(aWebhook(ofIntent, { event: { type } }));
    const said = { disputeId: 'du_1', amount: 250n, currency: 'EUR', reason: 'fraudulent' };
    const named = { ...said, evidenceDueBy: new Date(86_400_000), end: 'lost' };
    assert.deepEqual(read, {
      outcome: 'event',
      event: { id: 'evt_1', type, intentId: 'pi_1', dispute: named },
    });
    const amounts = [{ amount: '250' }, { amount: 0.5 }, { currency: null }];
    for (const wrong of [...amounts, { reason: null }, { id: 7 }]) {
      const other = aWebhook({ ...ofIntent, ...wrong }, { event: { type } });
      assert.deepEqual(readStripeEvent(other), { outcome: 'ignored', type });
    }
  }
  const step = aWebhook(ofIntent, { event: { type: 'charge.dispute.updated' } });
  assert.equal(readStripeEvent(step).outcome, 'ignored');
});

test('a dispute is over once its status says so, and until when evidence is wanted may be said', () => {
  const type = 'charge.dispute.closed';
  const dispute = {
    object: 'dispute',
    id: 'du_1',
    amount: 250,
    currency: 'eur',
    reason: 'general',
  };
  const read = (more: object) => {
    const about = { ...dispute, payment_intent: 'pi_1', ...more };
    const webhook = readStripeEvent(aWebhook(about, { event: { type } }));
    assert.ok(webhook.outcome === 'event');
    return webhook.event.dispute;
  };
  const ends = {
    won: ['won', 'warning_closed', 'prevented'],
    lost: ['lost'],
    undefined: ['needs_response', 'under_review', 'warning_needs_response'].concat([
      'warning_under_review',
      'appeal_needs_response',
      'appeal_under_review',
      'unheard_of',
    ]),
  };
  for (const [end, statuses] of Object.entries(ends)) {
    for (const status of statuses) assert.equal(String(read({ status })?.end), end, status);
  }
  // Zero: the bank takes no evidence.
  for (const evidence_details of [undefined, null, {}, { due_by: null }, { due_by: 0 }]) {
    assert.equal(read({ evidence_details })?.evidenceDueBy, undefined);
  }
  for (const due_by of ['86400', -1, 1.5, 1e15]) {
    assert.equal(read({ evidence_details: { due_by } })?.evidenceDueBy, undefined);
  }
});

test('a dispute is reported in minor units of ISO 4217, whatever the provider counts in', () => {
  for (const [currency, amount, minor] of [
    ['isk', 120_000, 1_200n],
    ['ugx', 500, 5n],
    ['mga', 12, 1_200n],
    ['kwd', 1_250, 1_250n],
    ['jpy', 500, 500n],
    // A bank asks for what nobody could be charged: never for less than that.
    ['isk', 120_050, 1_201n],
  ] as const) {
    const dispute = { id: 'du_1', object: 'dispute', amount, currency, reason: 'fraudulent' };
    const about = { ...dispute, charge: 'ch_1', payment_intent: 'pi_1', status: 'lost' };
    const webhook = aWebhook(about, { event: { type: 'charge.dispute.created' } });
    const read = readStripeEvent(webhook);
    const told = read.outcome === 'event' && read.event.dispute;
    assert.partialDeepStrictEqual(told, { amount: minor, currency: currency.toUpperCase() });
    const listed = { ...about, created: 1, metadata: {} } as unknown as Listed;
    assert.partialDeepStrictEqual(journalRowOf(listed), { amount: minor });
  }
});

test('an object of ours for a fraction of a minor unit is not passed over', () => {
  const charge = { id: 'ch_1', object: 'charge', status: 'succeeded', captured: true, created: 1 };
  const of = (amount: number, metadata: object) =>
    journalRowOf({ ...charge, currency: 'isk', amount_captured: amount, metadata } as Listed);
  const ours = { txn_id: aPayment().txnId };
  assert.equal(of(120_000, ours).amount, 1_200n);
  assert.throws(() => of(120_050, ours), ProviderError);
  assert.equal(of(120_050, {}).amount, 1_201n);
});

test('an event about something else, or of a step on the way, is genuine and ignored', () => {
  const customer = aWebhook({ id: 'cus_1' }, { event: { type: 'customer.created' } });
  assert.deepEqual(readStripeEvent(customer), { outcome: 'ignored', type: 'customer.created' });
  const created = aWebhook(intent, { event: { type: 'payment_intent.created' } });
  assert.equal(readStripeEvent(created).outcome, 'ignored');
  for (const event of [{ data: undefined }, { data: { object: null } }, { id: 7 }]) {
    assert.equal(readStripeEvent(aWebhook(intent, { event })).outcome, 'ignored');
  }
});

test('an event of live mode or of another account is genuine and not ours', () => {
  for (const event of [{ livemode: true }, { livemode: undefined }, { account: 'acct_other' }]) {
    const read = readStripeEvent(aWebhook(intent, { event }));
    assert.deepEqual(read, { outcome: 'foreign', type: succeeded });
  }
});

test('where real money is moved, an event of test mode is not ours', () => {
  const inLive = (livemode: unknown) =>
    readStripeEvent({ ...aWebhook(intent, { event: { livemode } }), mode: 'live' }).outcome;
  assert.equal(inLive(true), 'event');
  for (const livemode of [false, undefined, 'true']) assert.equal(inLive(livemode), 'foreign');
});

test('a key that moves real money is known by its name, restricted or not', () => {
  for (const key of ['sk_live_1', 'rk_live_1']) assert.equal(stripeModeOf(key), 'live');
  for (const key of ['sk_test_1', 'rk_test_1', 'a-simulator']) {
    assert.equal(stripeModeOf(key), 'test');
  }
});

test('while one secret follows the other both are good, and no third', () => {
  const secrets = ['whsec_new', 'whsec_old'];
  for (const by of secrets) {
    assert.equal(readStripeEvent({ ...aWebhook(intent, { by }), secrets }).outcome, 'event');
  }
  const other = aWebhook(intent, { by: 'whsec_other' });
  assert.equal(readStripeEvent({ ...other, secrets }).outcome, 'forged');
});

test('what is unsigned, altered, signed by somebody else or old is forged', () => {
  const genuine = aWebhook(intent);
  const forgeries = [
    { ...genuine, signature: undefined },
    { ...genuine, signature: 'nonsense' },
    { ...genuine, signature: '' },
    { ...genuine, body: Buffer.from(`${genuine.body.toString()} `) },
    { ...genuine, body: Buffer.from([0xff, 0xfe]) },
    { ...genuine, secrets: ['whsec_other'] },
    { ...genuine, secrets: [] },
    aWebhook(intent, { ageSeconds: 301 }),
  ];
  for (const each of forgeries) assert.equal(readStripeEvent(each).outcome, 'forged');
});

test('what is signed for later is forged, and what our secret signed and is no event', () => {
  assert.equal(readStripeEvent(aWebhook(intent, { ageSeconds: -301 })).outcome, 'forged');
  assert.equal(readStripeEvent(aWebhook(intent, { ageSeconds: -290 })).outcome, 'event');
  for (const payload of ['null', '0', '"event"', 'true', '', '{']) {
    const signature = Stripe.webhooks.generateTestHeaderString({ payload, secret });
    const received = { body: Buffer.from(payload), signature, secrets: ['whsec_other', secret] };
    assert.equal(readStripeEvent({ ...received, mode }).outcome, 'forged', payload);
  }
  // Its parts may be of any form: that is of no concern, and it need not come again.
  for (const event of [{ data: null }, { data: { object: null } }, { type: null }, { id: 7 }]) {
    assert.equal(readStripeEvent(aWebhook(intent, { event })).outcome, 'ignored');
  }
});
