import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import type { AcceptedFollowUp, AcceptedPayment } from '@triplock/payments';
import type { Queryable } from '@triplock/postgres';
import { withDeadline } from '@triplock/runtime';
import {
  aPayment,
  aRefund,
  createStatementRelay,
  createTestStripe,
  eventually,
  freePort,
} from '@triplock/testing';
import { start, within2min } from './test/at-stripe.ts';
import {
  aCard,
  aPipeline,
  aProvider,
  aTransfer,
  recordOf,
  refundRecordOf,
  traceparent,
} from './test/pipeline.ts';

/** Until each of them is final. */
function untilFinal(reader: Queryable, those: readonly (AcceptedPayment | AcceptedFollowUp)[]) {
  const ids = those.map(({ txnId }) => txnId);
  const sql = `SELECT count(*)::int AS final FROM ledger.transactions
    WHERE txn_id = ANY ($1) AND settled_at IS NOT NULL`;
  return eventually(
    async () => {
      const [row] = await reader.query<{ final: number }>(sql, [ids]);
      return row!.final === ids.length;
    },
    within2min(`the end of ${ids.length}`),
  );
}

const sixty = () => Array.from({ length: 60 }, aTransfer);

test('a row that somebody holds stops nobody else: refunds of that payment wait, and are decided in their order once it is free', async (context) => {
  const { work, owner, store, append } = await aPipeline(context);
  const before = work();
  const [held, ...others] = [aTransfer(), ...sixty()] as [AcceptedPayment, ...AcceptedPayment[]];
  for (const each of [held, ...others]) await append(recordOf(each));
  await before.allCommitted();
  await before.consumer.close();
  const now = Date.now();
  const [first, rest] = [{ amount: 300n }, {}].map((wish, n) =>
    aRefund(held, { ...wish, acceptedAt: new Date(now + n) }),
  ) as [AcceptedFollowUp, AcceptedFollowUp];
  const theirs = [...others.map((each) => aRefund(each)), ...sixty()];
  let worker: ReturnType<typeof work> | undefined;
  await store.open().transaction(async (tx) => {
    await tx.query('SELECT FROM ledger.transactions WHERE txn_id = $1 FOR UPDATE', [held.txnId]);
    for (const each of [first, rest]) await append(refundRecordOf(each));
    for (const each of theirs) {
      await append('paymentId' in each ? refundRecordOf(each) : recordOf(each));
    }
    // It has read nothing of this: all comes in one batch, or in the few that Kafka makes of it.
    worker = work({ groupId: before.groupId });
    await untilFinal(tx, theirs);
    await worker.allCommitted();
    for (const { txnId } of [first, rest]) {
      assert.equal((await worker.followUps.find(txnId))?.state, 'pending');
    }
  });
  const { resolve, followUps } = worker!;
  await eventually(async () => {
    await resolve();
    const amounts = [first, rest].map(async ({ txnId }) => (await followUps.find(txnId))?.money);
    const given = (await Promise.all(amounts)).map((money) => money?.amount);
    assert.deepEqual(given, [300n, 700n]);
    return true;
  });
  await untilFinal(owner, [first, rest]);
});

test('a book transfer that somebody holds and that is to be resumed stops nobody else, and is finished once it is free', async (context) => {
  const { work, owner, store, append } = await aPipeline(context);
  const before = work();
  const [held, ...others] = [aTransfer(), ...sixty()] as [AcceptedPayment, ...AcceptedPayment[]];
  // As of a worker that died before it settled it.
  await before.ledger.post([{ payment: held, traceparent }]);
  await before.consumer.close();
  await store.open().transaction(async (tx) => {
    await tx.query('SELECT FROM ledger.transactions WHERE txn_id = $1 FOR UPDATE', [held.txnId]);
    for (const each of [held, ...others]) await append(recordOf(each));
    const worker = work({ groupId: before.groupId });
    await worker.allCommitted();
    await untilFinal(tx, others);
    assert.equal((await worker.ledger.find(held.txnId))?.state, 'pending');
  });
  await owner.query('UPDATE ledger.transactions SET due_at = now() WHERE settled_at IS NULL');
  const { resolve } = work();
  await eventually(async () => (await resolve()) > 0);
  await untilFinal(owner, [held]);
});

/** What a worker is at when it stops, and the statement behind which it does: rows are locked. */
type Inside = {
  what: string;
  statement: RegExp;
  /** What is there before. */
  payment: () => AcceptedPayment;
  followUp?: (payment: AcceptedPayment) => AcceptedFollowUp;
};

const insides: readonly Inside[] = [
  {
    what: 'a refund',
    statement: /refund_reserved \+/,
    payment: aTransfer,
    followUp: (payment) => aRefund(payment),
  },
  {
    what: 'a capture',
    statement: /WITH closing AS MATERIALIZED/,
    payment: () =>
      aPayment({ amount: 1_000n, paymentMethod: 'pm_card_visa', captureMethod: 'manual' }),
    followUp: (payment) => aRefund(payment, { kind: 'capture' }),
  },
  {
    what: 'a settlement',
    statement: /settled_at = coalesce\(told\.happened_at, asked\.settled_at\)/,
    payment: () => aCard(),
  },
];

// Each waits for a session of Kafka and for the limit of a transaction to end.
suite('a worker that stands still, with rows locked', { concurrency: true }, () => {
  for (const inside of insides) {
    test(`inside ${inside.what} stops nobody else, and another finishes what it was at`, (context) =>
      standStill(context, inside));
  }
});

async function standStill(context: TestContext, { statement, payment, followUp }: Inside) {
  const stripe = await createTestStripe(context);
  const pipeline = await aPipeline(context);
  const { work, owner, store, settings, append } = pipeline;
  const provider = aProvider(stripe);
  const first = payment();
  const after = followUp?.(first);
  if (after !== undefined) {
    // It is authorised or paid for before, by a worker that goes.
    const before = work({ provider, groupId: settings.LEDGER_GROUP });
    await append(recordOf(first));
    await before.allCommitted();
    await before.consumer.close();
  }
  const relay = await createStatementRelay(context, store.url('triplock_ledger'));
  const standsStill = relay.standStillBehind(statement);
  const worker = start(context, {
    ...settings,
    DATABASE_URL: relay.url,
    ADMIN_PORT: String(await freePort()),
    STRIPE_API_KEY: stripe.apiKey,
    STRIPE_API_URL: stripe.url,
  });
  await append(after === undefined ? recordOf(first) : refundRecordOf(after));
  await withDeadline(standsStill, { ms: 120_000, what: `a statement as ${statement}` });
  worker.child.kill('SIGSTOP');
  const held = await owner.query(
    'SELECT FROM ledger.transactions WHERE txn_id = $1 FOR UPDATE SKIP LOCKED',
    [first.txnId],
  );
  assert.deepEqual(held, [], 'the worker holds no row');
  const others = sixty();
  for (const each of others) await append(recordOf(each));
  work({ provider, groupId: settings.LEDGER_GROUP });
  await untilFinal(owner, others);
  await untilFinal(owner, [after ?? first]);
  assert.equal(worker.child.exitCode, null);
}
