import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { inspect } from 'node:util';
import { aPayment, createTestStripe, type TestStripe } from '@triplock/testing';
import { ProviderError } from '../provider-error.ts';
import type { IntentOutcome, IntentRequest, RefundAtProvider } from '../provider.ts';
import { openStripe } from './open-stripe.ts';

let simulator: TestStripe;
let stopSimulator = async () => {};
before(async () => {
  simulator = await createTestStripe({ after: (stop) => void (stopSimulator = stop) });
});
after(() => stopSimulator());

/** The provider over the simulator, which has forgotten what the tests before did. */
async function aProvider(timeoutMs = 5_000) {
  await simulator.control('POST', '/reset');
  const { apiKey, url: apiUrl } = simulator;
  const provider = openStripe({ apiKey, apiUrl, timeoutMs });
  const prepared = async (paymentMethod = 'pm_card_visa') => {
    const request = requestOf(paymentMethod);
    const created = await provider.createIntent(request);
    assert.ok(created.outcome === 'created');
    return { ...request, intentId: created.intentId };
  };
  const succeededCharges = async () => {
    type Audit = { charges: Record<string, { count: number; amount: number }> };
    const { charges } = await simulator.control<Audit>('GET', '/audit');
    return charges['eur'] ?? { count: 0, amount: 0 };
  };
  const strike = (fault: object) => simulator.control('POST', '/faults', fault);
  return { provider, prepared, succeededCharges, strike };
}

function requestOf(paymentMethod = 'pm_card_visa'): IntentRequest {
  const { txnId, partnerId, key, details } = aPayment({ amount: 1_250n });
  return {
    txnId,
    kind: 'payment',
    partnerId,
    key,
    money: details.money,
    paymentMethod,
    attempt: 1,
  };
}

const failureCode = (outcome: IntentOutcome | RefundAtProvider) =>
  'failure' in outcome ? outcome.failure.code : outcome.outcome;

test('an intent that is prepared charges nobody, and one that is confirmed charges once', async () => {
  const { provider, prepared, succeededCharges } = await aProvider();
  const intent = await prepared();
  assert.deepEqual(await provider.readIntent(intent), {
    outcome: 'unconfirmed',
  });
  assert.equal((await succeededCharges()).count, 0);
  const first = await provider.confirmIntent({ ...intent, attempt: 1 });
  assert.ok(first.outcome === 'succeeded' && first.chargeId.startsWith('ch_'));
  for (const attempt of [1, 2, 3]) {
    assert.deepEqual(await provider.confirmIntent({ ...intent, attempt }), first);
  }
  assert.deepEqual(await succeededCharges(), { count: 1, amount: 1_250 });
});

test('the same caller prepares the same intent again', async () => {
  const { provider } = await aProvider();
  const request = requestOf();
  const made = await Promise.all([1, 2, 3].map(() => provider.createIntent(request)));
  const ids = made.flatMap((each) => (each.outcome === 'created' ? each.intentId : []));
  assert.equal(new Set(ids).size, 1);
  assert.ok(made.every(({ outcome }) => outcome === 'created' || outcome === 'unknown'));
});

test('a decline is final and carries the bank’s reason', async () => {
  const { provider, prepared, succeededCharges } = await aProvider();
  const declines = [
    ['pm_card_chargeDeclined', 'generic_decline'],
    ['pm_card_chargeDeclinedInsufficientFunds', 'insufficient_funds'],
  ] as const;
  for (const [method, code] of declines) {
    const intent = await prepared(method);
    assert.equal(failureCode(await provider.confirmIntent({ ...intent, attempt: 1 })), code);
    // A second confirm does not charge the method again, and the intent still knows why.
    assert.equal(failureCode(await provider.confirmIntent({ ...intent, attempt: 2 })), code);
    assert.equal(failureCode(await provider.readIntent(intent)), code);
  }
  assert.equal((await succeededCharges()).count, 0);
});

test('a payment method that does not exist, or not for this currency, is refused in Stripe’s words', async () => {
  const { provider } = await aProvider();
  for (const [method, code] of [
    ['pm_nobody', 'resource_missing'],
    // Of an error without a code: its type.
    ['pm_usBankAccount_success', 'invalid_request_error'],
  ] as const) {
    const created = await provider.createIntent(requestOf(method));
    assert.equal(created.outcome === 'refused' && created.failure.code, code);
  }
});

test('a customer who has to act, and a bank that takes its time, are waited for', async () => {
  const { provider, prepared } = await aProvider();
  const intent = await prepared('pm_card_authenticationRequired');
  assert.deepEqual(await provider.confirmIntent({ ...intent, attempt: 1 }), {
    outcome: 'waiting',
    waitsFor: 'customer',
  });
  const cancelled = await provider.cancelIntent(intent);
  assert.equal(failureCode(cancelled), 'authentication_required');
});

test('an intent that succeeded cannot be cancelled, and says so', async () => {
  const { provider, prepared } = await aProvider();
  const intent = await prepared();
  const charged = await provider.confirmIntent({ ...intent, attempt: 1 });
  assert.deepEqual(await provider.cancelIntent(intent), charged);
});

const lostAnswers = ['time-out', 'reset-after', 'half-body'] as const;
for (const fault of lostAnswers) {
  test(`a charge whose answer is lost by ${fault} is unknown, and its intent knows`, async () => {
    const { provider, prepared, succeededCharges, strike } = await aProvider(1_000);
    const intent = await prepared();
    const times = fault === 'time-out' ? { delayMs: 5_000 } : {};
    // The package sends once more by itself after a reset, so the answer has to be lost twice.
    await strike({ fault, operation: 'payment_intents.confirm', count: 2, ...times });
    const lost = await provider.confirmIntent({ ...intent, attempt: 1 });
    assert.ok(lost.outcome === 'unknown' && !lost.kept && lost.sent);
    const seen = await provider.readIntent(intent);
    assert.equal(seen.outcome, 'succeeded');
    assert.equal((await succeededCharges()).count, 1);
  });
}

test('a kept 500 comes back under its key, and the next attempt has another', async () => {
  const { provider, prepared, succeededCharges, strike } = await aProvider();
  const intent = await prepared();
  await strike({ fault: 'error', operation: 'payment_intents.confirm', count: 1 });
  // That it is kept is known when it comes a second time.
  for (const kept of [false, true]) {
    const answer = await provider.confirmIntent({ ...intent, attempt: 1 });
    assert.ok(answer.outcome === 'unknown' && answer.kept === kept);
  }
  const { outcome } = await provider.readIntent(intent);
  assert.equal(outcome, 'unconfirmed');
  const second = await provider.confirmIntent({ ...intent, attempt: 2 });
  assert.equal(second.outcome, 'succeeded');
  assert.equal((await succeededCharges()).count, 1);
});

test('a rate limit is unknown and says when to come again', async () => {
  const { provider, strike } = await aProvider();
  await strike({ fault: 'rate-limit', count: 1, retryAfterSeconds: 7 });
  const answer = await provider.createIntent(requestOf());
  assert.ok(answer.outcome === 'unknown' && answer.retryAfterMs === 7_000);
});

test('what is logged of an error names neither the idempotency key nor the intent', async () => {
  const { provider, prepared, strike } = await aProvider();
  const intent = await prepared();
  await strike({ fault: 'error', operation: 'payment_intents.confirm', count: 1 });
  const answer = await provider.confirmIntent({ ...intent, attempt: 1 });
  assert.ok(answer.outcome === 'unknown' && answer.error instanceof ProviderError);
  const shown = inspect(answer.error, { depth: null });
  assert.match(shown, /500/);
  assert.ok(!shown.includes(intent.key) && !shown.includes(intent.intentId), shown);
});

test('a wrong API key says nothing about a payment', async () => {
  const stranger = openStripe({ apiKey: 'nonsense', apiUrl: simulator.url, timeoutMs: 5_000 });
  assert.equal((await stranger.createIntent(requestOf())).outcome, 'unknown');
});

test('a refund gives money back once, and is found again by its transaction', async () => {
  const { provider, prepared } = await aProvider();
  const intent = await prepared();
  await provider.confirmIntent({ ...intent, attempt: 1 });
  const { currency } = intent.money;
  const request = { ...intent, kind: 'refund' as const, money: { amount: 400n, currency } };
  assert.deepEqual(await provider.findRefund(request), { outcome: 'none' });
  const given = await provider.refund(request);
  assert.ok(given.outcome === 'succeeded');
  assert.deepEqual(await provider.refund(request), given);
  assert.deepEqual(await provider.findRefund(request), given);
  const other = { ...request, key: aPayment().key, money: { amount: 1_000n, currency } };
  assert.equal((await provider.refund(other)).outcome, 'refused');
});

test('two callers whose long keys differ at the end have keys of their own', async () => {
  const { provider } = await aProvider();
  const long = (end: string) => ({
    ...requestOf(),
    key: `${'k'.repeat(250)}${end}` as IntentRequest['key'],
  });
  const [one, two] = await Promise.all([long('1'), long('2')].map((r) => provider.createIntent(r)));
  assert.ok(one?.outcome === 'created' && two?.outcome === 'created');
  assert.notEqual(one.intentId, two.intentId);
});
