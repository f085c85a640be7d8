import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createTestStripe, type TestStripe } from '@triplock/testing';
import { providerConformance, requestOf, type LosableCall } from '@triplock/provider/conformance';
import { ProviderError } from '@triplock/provider';
import { openStripeJournal } from './journal.ts';
import { openStripe } from './stripe.ts';

let simulator: TestStripe;
let stopSimulator = async () => {};
before(async () => {
  simulator = await createTestStripe({ after: (stop) => void (stopSimulator = stop) });
});
after(() => stopSimulator());

/** Stripe by the simulator, which has forgotten what the tests before did. */
async function aStripe(timeoutMs = 5_000) {
  await simulator.control('DELETE', '/faults');
  await simulator.control('POST', '/clock', { offsetMs: 0 });
  await simulator.control('POST', '/reset');
  const { apiKey, url: apiUrl } = simulator;
  const provider = openStripe({ apiKey, apiUrl, timeoutMs });
  const strike = async (fault: object) => void (await simulator.control('POST', '/faults', fault));
  return { provider, strike };
}

const operations = {
  prepare: 'payment_intents.create',
  confirm: 'payment_intents.confirm',
  read: 'payment_intents.retrieve',
  cancel: 'payment_intents.cancel',
  refund: 'refunds.create',
  find: 'refunds.list',
} as const satisfies Record<LosableCall, string>;
const confirm = { operation: operations.confirm };

providerConformance(async () => {
  const { provider, strike } = await aStripe();
  const { apiKey, url: apiUrl } = simulator;
  const limits = { timeoutMs: 5_000, requestsPerSecondMax: 1_000, pageMax: 10 };
  return {
    provider,
    journal: openStripeJournal({ apiKey, apiUrl, ...limits }),
    methods: {
      succeeds: 'pm_card_visa',
      declined: [
        ['pm_card_chargeDeclined', 'generic_decline'],
        ['pm_card_chargeDeclinedInsufficientFunds', 'insufficient_funds'],
      ],
      needsCustomer: 'pm_card_authenticationRequired',
      nonexistent: 'pm_nobody',
    },
    // The package sends once more by itself after a reset, so the answer has to be lost twice.
    loseAnswer: (call) => strike({ fault: 'reset-after', operation: operations[call], count: 2 }),
    refused: 'is open',
    errors: 'are kept',
    settle: async () => undefined,
    failOnce: () => strike({ fault: 'error', ...confirm, count: 1 }),
    turnAway: (seconds) => strike({ fault: 'rate-limit', count: 1, retryAfterSeconds: seconds }),
    payWith: async (intentId, method) => {
      const answer = await fetch(`${apiUrl}/v1/payment_intents/${intentId}/confirm`, {
        method: 'POST',
        headers: { authorization: `Bearer ${apiKey}` },
        body: new URLSearchParams({ payment_method: method }),
      });
      await answer.arrayBuffer();
    },
    advanceMs: async (ms) => void (await simulator.control('POST', '/clock', { advanceMs: ms })),
  };
});

for (const fault of ['time-out', 'half-body'] as const) {
  test(`a charge whose answer is lost by ${fault} is unknown, and its intent knows`, async () => {
    const { provider, strike } = await aStripe(1_000);
    const request = requestOf('pm_card_visa');
    const created = await provider.createIntent(request);
    assert.ok(created.outcome === 'created');
    const intent = { ...request, intentId: created.intentId };
    const times = fault === 'time-out' ? { delayMs: 5_000 } : {};
    await strike({ fault, ...confirm, count: 2, ...times });
    const lost = await provider.confirmIntent(intent);
    assert.ok(lost.outcome === 'unknown' && !lost.kept && lost.sent);
    assert.equal((await provider.readIntent(intent)).outcome, 'succeeded');
  });
}

test('a payment method that does not exist, or not for this currency, is refused with Stripe’s message', async () => {
  const { provider } = await aStripe();
  for (const [method, code] of [
    ['pm_nobody', 'resource_missing'],
    // Of an error without a code: its type.
    ['pm_usBankAccount_success', 'invalid_request_error'],
  ] as const) {
    const created = await provider.createIntent(requestOf(method));
    assert.equal(created.outcome === 'refused' && created.failure.code, code);
  }
});

test('what is logged of an error names its type and status', async () => {
  const { provider, strike } = await aStripe();
  await strike({ fault: 'error', operation: 'payment_intents.create', count: 1 });
  const answer = await provider.createIntent(requestOf('pm_card_visa'));
  assert.ok(answer.outcome === 'unknown' && answer.error instanceof ProviderError);
  assert.equal(answer.error.statusCode, 500);
});

test('a wrong API key says nothing about a payment', async () => {
  const stranger = openStripe({ apiKey: 'nonsense', apiUrl: simulator.url, timeoutMs: 5_000 });
  assert.equal((await stranger.createIntent(requestOf('pm_card_visa'))).outcome, 'unknown');
});

const hourMs = 3_600_000;

/** A charge that was accepted 30 hours ago, whose intents are made as Stripe's clock says. */
async function anOldCharge() {
  const { provider } = await aStripe();
  const request = requestOf('pm_card_visa');
  const charge = { ...request, acceptedAt: new Date(Date.now() - 30 * hourMs) };
  const hoursAgo = (hours: number) =>
    simulator.control('POST', '/clock', { offsetMs: -hours * hourMs });
  /** Each by a key of its own, as after a kept error. */
  const create = async (attempt = 1, about = request) => {
    const created = await provider.createIntent({ ...about, attempt });
    assert.ok(created.outcome === 'created');
    return { ...about, attempt, intentId: created.intentId };
  };
  return { provider, request, charge, hoursAgo, create };
}

test('an intent whose key is forgotten is found by its transaction, however many were made since', async () => {
  const { provider, request, charge, hoursAgo, create } = await anOldCharge();
  await hoursAgo(30);
  assert.deepEqual(await provider.findIntent(charge), { outcome: 'none' });
  // After what was listed just now, and past a page of others.
  await hoursAgo(25);
  const { intentId } = await create();
  for (let n = 0; n < 101; n += 1) await create(1, requestOf('pm_card_visa'));
  await hoursAgo(0);
  assert.notEqual((await create()).intentId, intentId);
  const { apiKey, url: apiUrl } = simulator;
  const restarted = openStripe({ apiKey, apiUrl, timeoutMs: 5_000 });
  assert.deepEqual(await restarted.findIntent(charge), { outcome: 'found', intentId });
  const other = { ...charge, money: { ...request.money, amount: 1n } };
  const found = await restarted.findIntent(other);
  assert.ok(found.outcome === 'unknown' && found.untilMended);
});

test('of several intents of one charge the one that moved money is found, and one that ended before one that could be confirmed', async () => {
  for (const ends of ['confirmIntent', 'cancelIntent'] as const) {
    const { provider, charge, hoursAgo, create } = await anOldCharge();
    await hoursAgo(29);
    await create(1);
    const ended = await create(2);
    await provider[ends](ended);
    await create(3);
    await hoursAgo(0);
    const { intentId } = ended;
    assert.deepEqual(await provider.findIntent(charge), { outcome: 'found', intentId });
  }
});

test('a list that cannot be read to its end leaves it unknown whether there is an intent', async () => {
  const { provider, charge, hoursAgo, create } = await anOldCharge();
  await hoursAgo(29);
  const { intentId } = await create();
  await hoursAgo(0);
  await simulator.control('POST', '/faults', {
    fault: 'error',
    operation: 'payment_intents.list',
    count: 1,
  });
  assert.equal((await provider.findIntent(charge)).outcome, 'unknown');
  assert.deepEqual(await provider.findIntent(charge), { outcome: 'found', intentId });
});

/** How many pages of intents Stripe is asked for while `look` is under way. */
async function pagesOf(look: () => Promise<unknown>): Promise<number> {
  const counting = { fault: 'slow', operation: 'payment_intents.list', delayMs: 0 };
  const { id } = await simulator.control<{ id: string }>('POST', '/faults', counting);
  await look();
  type Counted = { faults: { id: string; hits: number }[] };
  const { faults } = await simulator.control<Counted>('GET', '/faults');
  await simulator.control('DELETE', `/faults/${id}`);
  return faults.find((each) => each.id === id)!.hits;
}

test('what many young charges look for at once is listed once, and of what is over nothing is listed again', async () => {
  const { provider, hoursAgo } = await anOldCharge();
  await hoursAgo(0.75);
  for (let n = 0; n < 201; n += 1) await provider.createIntent(requestOf('pm_card_visa'));
  await hoursAgo(0);
  const look = () => provider.findIntent({ ...requestOf('pm_card_visa'), acceptedAt: new Date() });
  await look();
  // One more where ten minutes are over meanwhile.
  assert.ok((await pagesOf(look)) <= 2);
  // Those that come while the first one's list is under way share the next.
  assert.ok((await pagesOf(() => Promise.all(Array.from({ length: 50 }, look)))) <= 3);
});

test('one list that fails does not fail for all who share it', async () => {
  const { provider, strike } = await aStripe();
  const look = () => provider.findIntent({ ...requestOf('pm_card_visa'), acceptedAt: new Date() });
  await look();
  await strike({ fault: 'error', operation: 'payment_intents.list', count: 1 });
  const found = await Promise.all(Array.from({ length: 20 }, look));
  // Where ten minutes are over meanwhile, the first one's own list of them fails.
  assert.ok(found.filter(({ outcome }) => outcome !== 'none').length <= 1);
});

test('what is over by a clock that is ahead of Stripe’s is listed again, as more was made since', async () => {
  const { provider, request, hoursAgo } = await anOldCharge();
  const charge = { ...request, acceptedAt: new Date() };
  await hoursAgo(0.6);
  assert.deepEqual(await provider.findIntent(charge), { outcome: 'none' });
  const made = await provider.charge!(request);
  assert.ok(made.outcome === 'made');
  const { intentId } = made;
  assert.deepEqual(await provider.findIntent(charge), { outcome: 'found', intentId });
});
