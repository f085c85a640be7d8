import assert from 'node:assert/strict';
import { after, before, suite, test, type TestContext } from 'node:test';
import { openPostgresRefunds } from '@triplock/ledger';
import type { AcceptedPayment } from '@triplock/payments';
import {
  aPayment,
  aRefund,
  createTestStripe,
  eventually,
  type TestStripe,
} from '@triplock/testing';
import { aPipeline, aProvider, recordOf, traceparent } from './worker.testing.ts';

let stripe: TestStripe;
let stopStripe = async () => {};
before(async () => {
  stripe = await createTestStripe({ after: (stop) => void (stopStripe = stop) });
});
after(() => stopStripe());

/** A card payment of 1 000 that was charged, and a refund of 400 of it that waits for the resolver. */
async function aCharge(context: TestContext) {
  await stripe.control('POST', '/reset');
  const pipeline = await aPipeline(context);
  const worker = pipeline.work({ provider: aProvider(stripe) });
  const payment = aPayment({ amount: 1_000n, paymentMethod: 'pm_card_visa' });
  await pipeline.append(recordOf(payment));
  await worker.allCommitted();
  const refund = aRefund(payment, { amount: 400n });
  const refunds = openPostgresRefunds(pipeline.store.open('triplock_ledger'));
  await refunds.post({ refund, traceparent, settledAt: new Date() });
  const stateOf = async () => (await refunds.find(refund.txnId))?.state;
  const resolve = async () => {
    await pipeline.owner.query(`
      UPDATE ledger.transactions SET due_at = now(), version = version + 1
      WHERE state = 'pending'`);
    await worker.resolve();
  };
  const untilFinal = () =>
    eventually(async () => {
      await resolve();
      const state = await stateOf();
      return state !== 'pending' && state;
    });
  return { ...pipeline, worker, refunds, refund, payment, resolve, stateOf, untilFinal };
}

/** The provider gave 400 back once, and the ledger tells the same. */
async function givenBackOnce({
  refunds,
  refund,
  payment,
}: Awaited<ReturnType<typeof aCharge>>): Promise<void> {
  type Audit = { refunds: Record<string, { count: number; amount: number }> };
  const audit = await stripe.control<Audit>('GET', '/audit');
  assert.deepEqual(audit.refunds['eur'], { count: 1, amount: 400 });
  const row = await refunds.find(refund.txnId);
  assert.equal(row?.state, 'succeeded');
  assert.match(row.provider!.refundId!, /^re_/);
  assert.equal(await amountRefunded(refunds, payment), 400n);
}

async function amountRefunded(
  refunds: Awaited<ReturnType<typeof aCharge>>['refunds'],
  { txnId: paymentId, partnerId }: AcceptedPayment,
): Promise<bigint> {
  const all = await refunds.listOf({ paymentId, partnerId, limit: 10 });
  const succeeded = all.filter(({ state }) => state === 'succeeded');
  return succeeded.reduce((sum, { money }) => sum + money!.amount, 0n);
}

test('a reserved refund is given back by the provider, once', async (context) => {
  const charge = await aCharge(context);
  assert.equal(await charge.untilFinal(), 'succeeded');
  await givenBackOnce(charge);
});

test('a worker that dies after the provider gave back finds the refund instead of repeating it', async (context) => {
  const charge = await aCharge(context);
  charge.worker.crashPoints.arm({ name: 'worker.refunded', action: { do: 'throw' } });
  await charge.resolve();
  assert.equal(await charge.stateOf(), 'pending');
  // The provider has forgotten the key by now: the list is what is left.
  await stripe.control('POST', '/clock', { advanceMs: 25 * 3_600_000 });
  assert.equal(await charge.untilFinal(), 'succeeded');
  await givenBackOnce(charge);
});

suite('a refund whose answer is lost is looked for before it is asked for again', () => {
  for (const fault of ['reset-after', 'half-body', 'error', 'error-after', 'unavailable']) {
    test(fault, async (context) => {
      const charge = await aCharge(context);
      await stripe.control('POST', '/faults', { fault, operation: 'refunds.create', count: 2 });
      assert.equal(await charge.untilFinal(), 'succeeded');
      await givenBackOnce(charge);
    });
  }
});

test('a refund that the provider refuses fails, and gives its amount back to the payment', async (context) => {
  const charge = await aCharge(context);
  // Somebody gave everything back at the provider itself.
  const { apiKey, connection } = stripe;
  const { provider } = (await charge.refunds.find(charge.refund.txnId))!;
  const answer = await fetch(`http://${connection.host}:${connection.port}/v1/refunds`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${apiKey}`,
      'content-type': 'application/x-www-form-urlencoded',
    },
    body: `payment_intent=${provider!.intentId}`,
  });
  assert.equal(answer.status, 200);
  assert.equal(await charge.untilFinal(), 'failed');
  const row = await charge.refunds.find(charge.refund.txnId);
  assert.equal(row?.failure?.code, 'charge_already_refunded');
  const [payment] = await charge.owner.query<{ refund_reserved: bigint }>(
    `SELECT refund_reserved FROM ledger.transactions WHERE kind = 'payment'`,
  );
  assert.equal(payment?.refund_reserved, 0n);
});
