import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { openDatabase, type Database } from '@triplock/postgres';
import { aPayment, createTestDatabase, eventually, freePort } from '@triplock/testing';
import { chargingConformance } from '../test/charging.conformance.ts';
import { ledgerConformance } from '../test/ledger.conformance.ts';
import { type LedgerByRelay, lostAnswers } from '../test/lost-answers.conformance.ts';
import { UnpostableError, type Posting, type PostOutcome } from '../ledger.ts';
import { refundsConformance } from '../test/refunds.conformance.ts';
import { openPostgresLedger } from './payments.ts';
import { openPostgresFollowUps } from './follow-ups.ts';
import { aChargedCard, aTransfer, settledNow, traceparent } from '../test/under-test.ts';
import { takeDueFrom, wakeDueIn } from './transactions.ts';

async function openUnderTest(
  context: TestContext,
): Promise<LedgerByRelay & { one: Database; owner: Database }> {
  const store = await createTestDatabase(context);
  const owner = store.open();
  const { database: one, relay } = await store.openByRelay('triplock_ledger');
  const two = store.open('triplock_ledger');
  return {
    one,
    owner,
    relay,
    ledger: openPostgresLedger(one),
    another: openPostgresLedger(two),
    followUps: openPostgresFollowUps(one),
    otherFollowUps: openPostgresFollowUps(two),
    takeDue: takeDueFrom(one),
    wakeDue: wakeDueIn(one),
    letTimePass: async (only) => {
      const sql = `
        UPDATE ledger.transactions SET due_at = now() - interval '1 second', version = version + 1
        WHERE state = 'pending' AND txn_id = coalesce($1, txn_id)`;
      await owner.query(sql, [only]);
    },
    dueInMs: async (txnId) => {
      const [row] = await owner.query<{ rest: number }>(
        `SELECT extract(epoch FROM due_at - now())::float8 * 1000 AS rest
         FROM ledger.transactions WHERE txn_id = $1`,
        [txnId],
      );
      return row!.rest;
    },
    writeDetails: async (txnId, details) => {
      await owner.query(`
        ALTER TABLE ledger.transactions DISABLE TRIGGER transactions_change_forward,
          DROP CONSTRAINT IF EXISTS transactions_details_check`);
      const sql = 'UPDATE ledger.transactions SET details = $2 WHERE txn_id = $1';
      await owner.query(sql, [txnId, details]);
      await owner.query(
        'ALTER TABLE ledger.transactions ENABLE TRIGGER transactions_change_forward',
      );
    },
    entries: () =>
      owner.query(`
        SELECT txn_id AS "txnId", debit_account AS debit, credit_account AS credit, amount
        FROM ledger.entries`),
    events: () =>
      owner.query(`
        SELECT event_id AS "eventId", event_type AS "eventType", txn_id AS "txnId", sequence, payload
        FROM ledger.outbox ORDER BY order_id`),
  };
}

ledgerConformance('ledger on PostgreSQL', openUnderTest);
chargingConformance('charging on PostgreSQL', openUnderTest);
refundsConformance('refunds on PostgreSQL', openUnderTest);
lostAnswers('ledger on PostgreSQL whose answers are lost', openUnderTest);

const transfer = (wish: Parameters<typeof aPayment>[0] = {}): Posting => ({
  payment: aPayment(wish),
  traceparent: '00-11111111111111111111111111111111-2222222222222222-01',
  settlement: { result: { state: 'succeeded' }, settledAt: new Date() },
});

/** Posts while another's transaction holds the same id, and ends that one as asked. */
async function postBehind(context: TestContext, end: 'commit' | 'rollback') {
  const store = await createTestDatabase(context);
  const owner = store.open();
  const posting = transfer();
  const mine = openPostgresLedger(store.open('triplock_ledger'));
  let outcomes: Promise<PostOutcome[]> | undefined;
  const rival = owner.transaction(async (tx) => {
    await openPostgresLedger({ ...owner, query: tx.query }).post([posting]);
    outcomes = mine.post([posting]);
    await eventually(() => waitsForALock(owner));
    if (end === 'rollback') throw new Error('rolled back');
  });
  if (end === 'commit') await rival;
  else await assert.rejects(rival, /rolled back/);
  return { outcomes: await outcomes, mine, posting };
}

async function waitsForALock(database: Database): Promise<boolean> {
  const waiting = await database.query(`
    SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'`);
  return waiting.length > 0;
}

test('a post that waited for a writer that committed finds its row', async (context) => {
  const { outcomes } = await postBehind(context, 'commit');
  assert.deepEqual(outcomes, [{ outcome: 'already-recorded', state: 'succeeded' }]);
});

test('a post that waited for a writer that rolled back makes the row itself', async (context) => {
  const { outcomes, mine, posting } = await postBehind(context, 'rollback');
  assert.deepEqual(outcomes, [{ outcome: 'posted' }]);
  assert.equal((await mine.find(posting.payment.txnId))?.state, 'succeeded');
});

test('a key that stands under another id is an error for a person, and is not posted twice', async (context) => {
  const store = await createTestDatabase(context);
  const ledger = openPostgresLedger(store.open('triplock_ledger'));
  const posting = transfer({ key: 'one' });
  await ledger.post([posting]);
  const forged = { ...posting, payment: { ...posting.payment, txnId: aPayment().txnId } };
  await assert.rejects(ledger.post([forged]), (error) => {
    assert.ok(!(error instanceof UnpostableError));
    assert.match(String(error), new RegExp(forged.payment.txnId));
    return true;
  });
  assert.equal(await ledger.find(forged.payment.txnId), undefined);
});

test('an outage is not the input’s fault', async (context) => {
  const store = await createTestDatabase(context);
  const away = new URL(store.url('triplock_ledger'));
  away.port = String(await freePort());
  const database = openDatabase({
    url: away.href,
    applicationName: 'test',
    onIdleError: () => undefined, // There is no connection that could become idle.
  });
  context.after(() => database.close());
  const ledger = openPostgresLedger(database);
  await assert.rejects(ledger.post([transfer()]), (error) => !(error instanceof UnpostableError));
  await assert.rejects(ledger.ping());
});

/** `wakeDue` whose look, which reports share, goes by `look`; and how often anything was asked. */
function wakingBy({ one }: Awaited<ReturnType<typeof openUnderTest>>, look?: () => Promise<never>) {
  const asked = { looks: 0, others: 0 };
  const query: Database['query'] = (sql, parameters) => {
    const isLook = sql.includes('WITH ORDINALITY');
    asked[isLook ? 'looks' : 'others'] += 1;
    // One that is asked for alone is no longer shared.
    const isShared = isLook && (parameters![0] as unknown[]).length > 1;
    return isShared && look ? look() : one.query(sql, parameters);
  };
  return { asked, wakeDue: wakeDueIn({ ...one, query }) };
}

const succeeded = { provider: 'stripe', type: 'payment_intent.succeeded' } as const;

test('reports that come together cost one statement, also those of money that the provider has', async (context) => {
  const store = await openUnderTest(context);
  const { asked, wakeDue } = wakingBy(store);
  const failure = { code: 'card_declined', message: 'declined' };
  const events = await Promise.all(
    Array.from({ length: 40 }, async (_, nth) => {
      const intentId = `pi_${nth}`;
      const { txnId, settle } = await aChargedCard(store, intentId);
      const result = { state: 'failed', failure } as const;
      const failed = { txnId, version: 2, traceparent, settledAt: settledNow, result };
      await (nth % 2 === 0 ? settle() : store.ledger.settle(failed));
      return { ...succeeded, eventId: `evt_${nth}`, intentId, paidFor: txnId };
    }),
  );
  const outcomes = await Promise.all(events.map((event) => wakeDue(event)));
  const nothing = { outcome: 'nothing-waits' };
  assert.deepEqual(
    outcomes,
    outcomes.map((_, nth) => (nth % 2 === 0 ? nothing : { ...nothing, paidAfterEnd: true })),
  );
  assert.deepEqual(asked, { looks: 1, others: 0 });
});

test('where the look that reports share fails, or hangs, each is asked for alone', async (context) => {
  const store = await openUnderTest(context);
  const { txnId } = await aChargedCard(store, 'pi_1');
  const { txnId: paidFor } = await aTransfer(store);
  const looks: (() => Promise<never>)[] = [
    () => Promise.reject(new Error('the connection is gone')),
    () => Promise.reject(Object.assign(new Error('out of memory'), { code: '53200' })),
    () => new Promise<never>(() => undefined),
  ];
  for (const [nth, look] of looks.entries()) {
    const { wakeDue } = wakingBy(store, look);
    const outcomes = await Promise.all([
      wakeDue({ ...succeeded, eventId: `evt_${nth}`, intentId: 'pi_1' }),
      wakeDue({ ...succeeded, eventId: `evt_none_${nth}`, intentId: 'pi_2' }),
      wakeDue({ ...succeeded, eventId: `evt_paid_${nth}`, intentId: 'pi_2', paidFor }),
    ]);
    assert.deepEqual(outcomes, [
      { outcome: 'woken', txnIds: [txnId] },
      { outcome: 'nothing-waits' },
      { outcome: 'nothing-waits', paidAfterEnd: true },
    ]);
  }
});

test('a look that PostgreSQL refuses as a mistake of ours is an error to see, and nobody asks alone', async (context) => {
  const store = await openUnderTest(context);
  await aChargedCard(store, 'pi_1');
  const { owner } = store;
  await owner.query('REVOKE SELECT ON ledger.transactions FROM triplock_ledger');
  const { asked, wakeDue } = wakingBy(store);
  const events = ['evt_1', 'evt_2'].map((eventId) => ({ ...succeeded, eventId, intentId: 'pi_1' }));
  const outcomes = await Promise.allSettled(events.map((event) => wakeDue(event)));
  for (const outcome of outcomes) {
    assert.match(String((outcome as PromiseRejectedResult).reason), /permission denied/);
  }
  assert.deepEqual(asked, { looks: 1, others: 0 });
});

test('what is pending is found by an index, however many payments have succeeded', async (context) => {
  const store = await createTestDatabase(context);
  const owner = store.open();
  await owner.query(`
    INSERT INTO ledger.transactions (txn_id, kind, partner_id, idempotency_key, fingerprint,
      response_version, amount, currency, created_at, state, settled_at, events, due_at)
    SELECT gen_random_uuid(), 'payment', 'acme', n, sha256('n'), 1, 5, 'EUR', now(),
      CASE WHEN n % 500 = 0 THEN 'pending' ELSE 'succeeded' END,
      CASE WHEN n % 500 = 0 THEN NULL ELSE now() END, 1,
      CASE WHEN n % 500 = 0 THEN now() END
    FROM generate_series(1, 20000) AS n`);
  await owner.query('ANALYZE ledger.transactions');
  const plans: unknown[] = [];
  const explaining: Database = {
    ...owner,
    query: async <Row extends object>(sql: string, parameters?: readonly unknown[]) => {
      plans.push(await owner.query(`EXPLAIN (FORMAT JSON) ${sql}`, parameters));
      return owner.query<Row>(sql, parameters);
    },
  };
  const { partnerId } = aPayment();
  const sums = await openPostgresLedger(explaining).pendingOf(partnerId);
  assert.deepEqual(sums, [{ currency: 'EUR', amount: 200n }]);
  assert.equal(plans.length, 1);
  assert.match(JSON.stringify(plans), /"Index Name":"(payments_not_succeeded|transactions_due)"/);
});
