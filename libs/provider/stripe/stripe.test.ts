import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createTestStripe, type TestStripe } from '@triplock/testing';
import { providerConformance, requestOf } from '../provider.conformance.ts';
import { ProviderError } from '../provider.ts';
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

const confirm = { operation: 'payment_intents.confirm' };

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
    loseAnswer: () => strike({ fault: 'reset-after', ...confirm, count: 2 }),
    keepError: () => strike({ fault: 'error', ...confirm, count: 1 }),
    turnAway: (seconds) => strike({ fault: 'rate-limit', count: 1, retryAfterSeconds: seconds }),
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
