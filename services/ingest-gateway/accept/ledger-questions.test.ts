import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { openPostgresFollowUps, openPostgresLedger } from '@triplock/ledger';
import { openDatabase } from '@triplock/postgres';
import { traceparentFrom } from '@triplock/runtime';
import { aPayment, aRefund, createTestDatabase, createTestRelay } from '@triplock/testing';
import { askTogether, type QuestionLimits, type QuestionOutcome } from './ledger-questions.ts';

const traceparent = traceparentFrom(undefined);
const settlement = { result: { state: 'succeeded' } as const, settledAt: new Date() };

/** Questions to a real ledger, and the size of every statement that was asked. */
async function openQuestions(
  t: TestContext,
  { limitMs = 60_000, ...bounds }: { limitMs?: number } & Partial<QuestionLimits> = {},
) {
  const database = await createTestDatabase(t);
  const writer = database.open('triplock_ledger');
  const ledger = openPostgresLedger(writer);
  const relay = await createTestRelay(t, database.url('triplock_gateway'));
  // The server gives a statement up after so long, and the client a second later.
  const limits = { statementTimeoutMs: 1_500, connectTimeoutMs: 5_000 };
  const names = { url: relay.url, applicationName: 'test' };
  const pool = openDatabase({ ...names, ...limits, onIdleError: () => undefined });
  t.after(() => pool.close());
  const reader = openPostgresLedger(pool);
  const asked: number[] = [];
  /** What the next statements wait for, or fail with. */
  const fate = { before: async () => {} };
  const kindsOf: typeof ledger.kindsOf = async (ids) => {
    asked.push(ids.length);
    await fate.before();
    return reader.kindsOf(ids);
  };
  const outcomes: QuestionOutcome[] = [];
  const count = (outcome: QuestionOutcome) => void outcomes.push(outcome);
  const { isPosted, isPostedSoon } = askTogether({ kindsOf }, { limitMs, count, ...bounds });
  const post = async () => {
    const payment = aPayment();
    await ledger.post([{ payment, traceparent, settlement }]);
    return payment;
  };
  return { isPosted, isPostedSoon, outcomes, asked, fate, post, writer, relay };
}

test('who asks together shares a statement, and each is told of its own alone', async (t) => {
  const { isPosted, asked, outcomes, post, writer } = await openQuestions(t);
  const payment = await post();
  const refund = aRefund(payment, { amount: 1n });
  const followUps = openPostgresFollowUps(writer);
  await followUps.post({ followUp: refund, traceparent, settledAt: new Date() });
  const questions = [payment, refund, aPayment(), payment, aRefund(payment, { amount: 1n })];
  assert.deepEqual(await Promise.all(questions.map(isPosted)), [true, true, false, true, false]);
  assert.deepEqual(asked, [4]);
  const counts = Object.groupBy(outcomes, (outcome) => outcome);
  assert.deepEqual([counts.posted?.length, counts['not-posted']?.length], [3, 2]);
});

test('what is posted as another kind is not posted as this one', async (t) => {
  const { isPosted, post } = await openQuestions(t);
  const { txnId } = await post();
  assert.equal(await isPosted({ txnId, kind: 'refund' }), false);
  assert.equal(await isPosted({ txnId, kind: 'payment' }), true);
});

test('no statement asks for more than its bound, and no more wait than may', async (t) => {
  const limits = { itemsMax: 10, batchesMax: 1, waitingMax: 25 };
  const { isPosted, asked, post } = await openQuestions(t, limits);
  const payment = await post();
  const many = Array.from({ length: 24 }, () => isPosted(aPayment()));
  const last = isPosted(payment);
  await assert.rejects(isPosted(payment), { name: 'TooManyWaitingError' });
  assert.deepEqual(new Set(await Promise.all(many)), new Set([false]));
  assert.equal(await last, true);
  assert.deepEqual(asked, [10, 10, 5]);
});

test('who asks while a statement is under way is told by a later one', async (t) => {
  const { isPosted, asked, fate, post } = await openQuestions(t, { batchesMax: 1 });
  const [begun, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  fate.before = () => {
    begun.resolve();
    return go.promise;
  };
  const first = isPosted(aPayment());
  await begun.promise;
  const payment = await post();
  const later = [payment, aPayment()].map(isPosted);
  go.resolve();
  assert.equal(await first, false);
  assert.deepEqual(await Promise.all(later), [true, false]);
  assert.deepEqual(asked, [1, 2]);
});

test('a statement that fails fails those who share it, and nobody after them', async (t) => {
  const { isPosted, fate, post } = await openQuestions(t, { itemsMax: 2, batchesMax: 1 });
  const payment = await post();
  let failures = 1;
  fate.before = async () => {
    if (failures-- > 0) throw new Error('the connection was lost');
  };
  const questions = [payment, aPayment(), payment, aPayment()].map(isPosted);
  const told = await Promise.allSettled(questions);
  const [one, other, third, fourth] = told;
  for (const failed of [one!, other!]) {
    assert.ok(failed.status === 'rejected');
    assert.match(String(failed.reason), /the connection was lost/);
  }
  assert.deepEqual(
    [third, fourth],
    [
      { status: 'fulfilled', value: true },
      { status: 'fulfilled', value: false },
    ],
  );
});

test('behind a ledger that stands still it is not asked for those whose requests were answered', async (t) => {
  const { isPosted, asked, fate, post, relay } = await openQuestions(t, {
    limitMs: 500,
    batchesMax: 1,
  });
  const payment = await post();
  assert.equal(await isPosted(payment), true);
  relay.freeze();
  const begun = Promise.withResolvers<void>();
  fate.before = async () => begun.resolve();
  const underWay = isPosted(payment);
  await begun.promise;
  const behind = Array.from({ length: 50 }, () => isPosted(payment));
  const told = await Promise.allSettled([underWay, ...behind]);
  assert.deepEqual(
    told.map(
      (each) => each.status === 'rejected' && /timeout|not asked/.exec(`${each.reason}`)?.[0],
    ),
    ['timeout', ...behind.map(() => 'not asked')],
  );
  assert.deepEqual(asked, [1, 1]);
  await relay.restore();
  assert.equal(await isPosted(payment), true);
});

test('who can do without the ledger waits for a moment, and the next ones not at all', async (t) => {
  const { isPosted, isPostedSoon, asked, outcomes, post, relay } = await openQuestions(t);
  const payment = await post();
  assert.equal(await isPosted(payment), true);
  assert.equal(await isPostedSoon(aPayment()), false);
  relay.freeze();
  assert.equal(await isPostedSoon(payment), undefined);
  assert.deepEqual(asked, [1, 1, 1]);
  const others = Array.from({ length: 50 }, () => isPostedSoon(payment));
  assert.deepEqual(new Set(await Promise.all(others)), new Set([undefined]));
  assert.deepEqual(asked, [1, 1, 1]);
  assert.deepEqual(outcomes, ['posted', 'not-posted']);
  await relay.restore();
  assert.equal(await isPosted(payment), true);
});
