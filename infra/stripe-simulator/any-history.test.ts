import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testControlToken } from '@triplock/testing';
import fc from 'fast-check';
import type { Stripe } from 'stripe';
import type { AccountAudit } from './store/account.ts';
import { faultKinds } from './faults.ts';
import { aSimulator, type ASimulator } from './test/simulator.ts';

// Whatever callers do at once, under whatever keys and faults: the money comes out right. This is
// what the house's own audit compares itself with, so it must hold before anything else can be
// believed.

const methods = [
  ...['pm_card_visa', 'pm_card_chargeDeclined', 'pm_card_authenticationRequired'],
  ...['pm_usBankAccount_success', 'pm_usBankAccount_noAccount', 'pm_card_refundFail'],
];

type Act =
  | {
      act: 'confirm' | 'cancel' | 'authenticate' | 'settle' | 'expire' | 'dispute';
      intent: number;
      key: string;
      method: string;
    }
  | { act: 'refund' | 'capture'; intent: number; key: string; amount: number };

// The last two are captured by hand.
const captureMethods = ['automatic', 'automatic_async', 'automatic', 'manual', 'manual'] as const;
const intent = fc.integer({ min: 0, max: captureMethods.length - 1 });
const key = fc.constantFrom('a', 'b', 'c', 'd');
const act: fc.Arbitrary<Act> = fc.oneof(
  fc.record({
    act: fc.constantFrom(
      ...(['confirm', 'confirm', 'cancel', 'authenticate', 'settle', 'expire', 'dispute'] as const),
    ),
    intent,
    key,
    method: fc.constantFrom(...methods),
  }),
  fc.record({
    act: fc.constantFrom('refund', 'capture'),
    intent,
    key,
    amount: fc.constantFrom(100, 300, 500, 501),
  }),
);
const fault = fc.constantFrom(
  ...faultKinds.filter((kind) => !['hold', 'time-out', 'slow'].includes(kind)),
);
const history = fc.record({
  rounds: fc.array(fc.array(act, { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 6 }),
  faults: fc.array(fault, { maxLength: 3 }),
  seed: fc.integer({ min: 0, max: 1_000 }),
});

test('no history charges an intent twice, refunds more than was paid, or leaves a final state', async (t) => {
  const simulator = await aSimulator(t);
  const { control, stripe } = simulator;
  await control('PUT', '/settings', { latency: { medianMs: 1, p99Ms: 4 } });
  await fc.assert(
    fc.asyncProperty(history, async ({ rounds, faults, seed }) => {
      await control('POST', '/reset');
      const { size } = await readJournal(simulator, 999_999_999_999);
      await control('PUT', '/seed', { seed });
      const ids = await intentsOf(stripe);
      for (const kind of faults)
        await control('POST', '/faults', { fault: kind, probability: 0.2 });
      for (const round of rounds) {
        // What fails has answered the caller something; what it did to the money is looked at
        // below.
        await Promise.allSettled(round.map((each) => perform(simulator, each, ids)));
      }
      await checkMoney(simulator);
      await checkStates(simulator, Number(size));
    }),
    { numRuns: 30 },
  );
});

async function intentsOf(stripe: Stripe): Promise<string[]> {
  const order = { amount: 500, currency: 'usd', payment_method_types: ['card', 'us_bank_account'] };
  const made = await Promise.all(
    captureMethods.map((capture_method) =>
      stripe.paymentIntents.create({ ...order, capture_method }),
    ),
  );
  return made.map(({ id }) => id);
}

/** Raw requests: the package would wait before it tries a reset connection again. */
async function perform({ send, control }: ASimulator, wish: Act, ids: string[]): Promise<unknown> {
  const id = ids[wish.intent]!;
  const headers = { 'idempotency-key': `${wish.act}-${wish.key}` };
  const path = `/v1/payment_intents/${id}`;
  switch (wish.act) {
    case 'confirm':
      return send({ path: `${path}/confirm`, form: `payment_method=${wish.method}`, headers });
    case 'cancel':
      return send({ path: `${path}/cancel`, headers });
    case 'authenticate':
      return control('POST', `/payment_intents/${id}/authenticate`, { outcome: 'succeeded' });
    case 'settle':
      return control('POST', '/settle', {});
    case 'expire':
      return control('POST', '/expire', { id });
    case 'dispute':
      return control('POST', `/payment_intents/${id}/dispute`, {});
    case 'capture': {
      const form = `amount_to_capture=${wish.amount}`;
      return send({ path: `${path}/capture`, form, headers });
    }
    case 'refund':
      return send({
        path: '/v1/refunds',
        form: `payment_intent=${id}&amount=${wish.amount}`,
        headers,
      });
  }
}

/** Read from the journal and not through the API, so that no fault is in the way. */
async function readJournal({ url }: ASimulator, from: number) {
  const response = await fetch(`${url}/_simulator/journal?from=${from}`, {
    headers: { authorization: `Bearer ${testControlToken}` },
  });
  const lines = (await response.text()).split('\n').filter((line) => line !== '');
  return {
    entries: lines.map((line) => JSON.parse(line)),
    size: response.headers.get('journal-size'),
  };
}

/** States follow each other as they were written; the last ones have no follower. */
async function checkStates(simulator: ASimulator, from: number): Promise<void> {
  const states = new Map<string, string>();
  for (const { change } of (await readJournal(simulator, from)).entries) {
    for (const { id, status } of change?.paymentIntents ?? []) {
      const before = states.get(id);
      if (before === 'succeeded' || before === 'canceled') assert.equal(status, before);
      states.set(id, status);
    }
  }
}

async function checkMoney({ stripe, control }: ASimulator): Promise<void> {
  await control('DELETE', '/faults');
  await control('POST', '/settle', {});
  const audit = await control<AccountAudit>('GET', '/audit');
  assert.deepEqual(audit.chargedTwice, []);
  const paid = audit.charges['usd'] ?? { count: 0, amount: 0 };
  assert.equal(paid.count, audit.paymentIntents['succeeded'] ?? 0);
  const { data: intents } = await stripe.paymentIntents.list({ limit: 100 });
  assert.equal(paid.amount, sumOf(intents, 'amount_received'));
  assert.equal(audit.held['usd']?.amount ?? 0, sumOf(intents, 'amount_capturable'));
  const { data: charges } = await stripe.charges.list({ limit: 100, expand: ['data.refunds'] });
  for (const { amount_refunded, amount, amount_captured, captured, refunds } of charges) {
    assert.ok(captured || amount_captured === 0);
    const given = refunds!.data.filter(({ status }) => status !== 'failed');
    assert.ok(amount_refunded <= amount);
    assert.equal(
      given.reduce((sum, refund) => sum + refund.amount, 0),
      amount_refunded,
    );
  }
  // The balance is what was captured, less what went back to customers and what they dispute.
  const { data: moved } = await stripe.balanceTransactions.list({ limit: 100 });
  const back = (audit.refunds['usd']?.amount ?? 0) + (audit.disputes['usd']?.amount ?? 0);
  assert.equal(sumOf(moved, 'net'), paid.amount - back);
}

function sumOf<Name extends string>(rows: readonly Record<Name, number>[], name: Name): number {
  return rows.reduce((sum, row) => sum + row[name], 0);
}
