import assert from 'node:assert/strict';
import { after, before, test, type TestContext } from 'node:test';
import { openPostgresRecovery } from '@triplock/ledger';
import type { AcceptedPayment } from '@triplock/payments';
import { createLogger } from '@triplock/runtime';
import { aRefund, createTestStripe, eventually, type TestStripe } from '@triplock/testing';
import { disputesPass } from './recalling.ts';
import { refundingAt } from './test/at-stripe.ts';
import { aCard } from './test/pipeline.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

let stripe: TestStripe;
let stopStripe = async () => {};
before(async () => {
  stripe = await createTestStripe({ after: (stop) => void (stopStripe = stop) });
});
after(() => stopStripe());

const { aRefunding, providerGaveBack } = refundingAt(() => stripe);

/** A worker's surroundings, and the ledger set back to before anything was in it. */
async function aSetBack(context: TestContext) {
  const refunding = await aRefunding(context);
  const { owner, store } = refunding;
  const setBack = async () => {
    await owner.transaction(async (tx) => {
      await tx.query('SET LOCAL session_replication_role = replica');
      await tx.query(
        `TRUNCATE ledger.transactions, ledger.entries, ledger.disputes, ledger.dispute_ends,
           ledger.outbox`,
      );
      await tx.query('INSERT INTO ledger.rewinds (since) VALUES (now())');
    });
  };
  const recovery = openPostgresRecovery(store.open('triplock_ledger'));
  /** What became of all refunds, with their amounts. */
  const ends = () =>
    owner.query(`
      SELECT txn_id, state, amount, failure_code, provider_refund_id FROM ledger.transactions
      WHERE kind = 'refund' ORDER BY txn_id`);
  return { ...refunding, setBack, recovery, ends };
}

test('refunds that were given back before the ledger was set back have the amount and the end that they had', async (context) => {
  const { pay, refund, worker, work, setBack, ends, cameTo, givenBack, letTimePass } =
    await aSetBack(context);
  const payments: AcceptedPayment[] = Array.from({ length: 6 }, () => aCard());
  await pay(...payments);
  await worker.allCommitted();
  // One after the other, so that the first gets 300 and the last what is left.
  const inTurns = payments.map((payment) => [
    aRefund(payment, { amount: 300n }),
    aRefund(payment),
    aRefund(payment, { amount: 1n }),
  ]);
  for (const nth of [0, 1, 2]) {
    await refund(...inTurns.map((refunds) => refunds[nth]!));
    await worker.allCommitted();
  }
  const before = await ends();
  const given = await providerGaveBack();
  assert.deepEqual(given, { count: 12, amount: 6_000 });
  await worker.consumer.close();
  await setBack();

  // The whole topic comes again, and no batch waits for a charge: each ends while its refunds wait,
  // and wakes them at once.
  const again = work(1);
  await again.allCommitted();
  await eventually(async () => {
    await letTimePass();
    await again.resolve();
    for (const payment of payments) {
      const wanted = { amount_exceeds_refundable: 1, succeeded: 2 };
      assert.deepEqual(await cameTo(payment), wanted);
    }
    return true;
  });
  assert.deepEqual(await ends(), before);
  assert.deepEqual(await providerGaveBack(), given);
  for (const payment of payments) {
    assert.deepEqual(await givenBack(payment), { refunded: 1_000n, reserved: 1_000n });
  }
});

test('refunds that are new after the ledger was set back are decided in the order in which they were accepted', async (context) => {
  const { pay, refund, worker, work, setBack, owner, givenBack } = await aSetBack(context);
  const payments: AcceptedPayment[] = Array.from({ length: 6 }, () => aCard());
  await pay(...payments);
  await worker.allCommitted();
  await worker.consumer.close();
  await setBack();
  const wishes = [{ amount: 300n }, {}, { amount: 1n }];
  const now = Date.now();
  const accepted = payments.flatMap((payment) =>
    wishes.map((wish, n) => aRefund(payment, { ...wish, acceptedAt: new Date(now + n) })),
  );
  await refund(...accepted);
  const again = work();
  await again.allCommitted();
  const decided = () =>
    owner.query<{ amounts: unknown }>(`
      SELECT array_agg(coalesce(amount::text, failure_code, state) ORDER BY created_at) AS amounts
      FROM ledger.transactions WHERE kind = 'refund' GROUP BY payment_id`);
  await eventually(async () => {
    await again.resolve();
    const amounts = ['300', '700', 'amount_exceeds_refundable'];
    assert.deepEqual(
      await decided(),
      Array.from(payments, () => ({ amounts })),
    );
    return true;
  });
  for (const payment of payments) {
    assert.deepEqual(await givenBack(payment), { refunded: 1_000n, reserved: 1_000n });
  }
});

test('while the provider does not say what it gave back no refund is decided', async (context) => {
  const { pay, refund, worker, work, setBack, cameTo, letTimePass } = await aSetBack(context);
  const payment = aCard();
  await pay(payment);
  await worker.allCommitted();
  await refund(aRefund(payment, { amount: 700n }));
  await worker.allCommitted();
  await worker.consumer.close();
  await setBack();
  await refund(aRefund(payment, { amount: 600n }));
  const fault = { fault: 'unavailable', operation: 'refunds.list' };
  const { id } = await stripe.control<{ id: string }>('POST', '/faults', fault);
  const again = work();
  await again.allCommitted();
  await again.resolve();
  assert.deepEqual(await cameTo(payment), { pending: 2 });
  await stripe.control('DELETE', `/faults/${id}`);
  await eventually(async () => {
    await letTimePass();
    await again.resolve();
    const wanted = { amount_exceeds_refundable: 1, succeeded: 1 };
    assert.deepEqual(await cameTo(payment), wanted);
    return true;
  });
});

test('a dispute since the moment that the ledger was set back to is noted again once, after its payment, with its end', async (context) => {
  const { pay, worker, work, setBack, recovery, owner } = await aSetBack(context);
  const payment = aCard();
  await pay(payment);
  await worker.allCommitted();
  const [row] = await owner.query<{ intent: string }>(
    'SELECT provider_intent_id AS intent FROM ledger.transactions',
  );
  const path = `/payment_intents/${row!.intent}/dispute`;
  const { id } = await stripe.control<{ id: string }>('POST', path, { amount: 400 });
  await stripe.control('POST', `/disputes/${id}/close`, { outcome: 'lost' });
  await worker.consumer.close();
  await setBack();
  const noted = () =>
    owner.query(`
      SELECT amount, sequence, ended FROM ledger.disputes
      LEFT JOIN ledger.dispute_ends USING (txn_id, dispute_id)`);
  const pass = disputesPass(worker.worker, recovery, logger);
  // Its payment is not there yet: it is asked for again.
  assert.equal(await pass(), 0);
  assert.deepEqual(await noted(), []);
  await work().allCommitted();
  assert.equal(await pass(), 1);
  assert.deepEqual(await noted(), [{ amount: 400n, sequence: 2, ended: 'lost' }]);
  assert.equal(await pass(), 0);
  assert.equal(await recovery.openRewind(), undefined);
});
