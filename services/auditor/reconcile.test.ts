import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { AcceptedPayment } from '@triplock/payments';
import { aPayment, createTestDatabase } from '@triplock/testing';
import { checks } from './checks.ts';
import { judge, look } from './reconcile.ts';
import { eventOf, lagOf, wholeSystem } from './whole-system.testing.ts';

async function aSystem(context: TestContext) {
  const store = await createTestDatabase(context);
  const admin = store.open();
  const system = wholeSystem({
    ledger: store.open('triplock_ledger'),
    notifier: store.open('triplock_notifier'),
    auditor: store.open('triplock_auditor'),
    admin,
  });
  const database = store.open('triplock_auditor');
  const audit = async ({ final = false, workerLag = 0 } = {}) => {
    const lag = { worker: lagOf(workerLag), accepted: lagOf(0), deadLetters: lagOf(0) };
    return judge(await look({ database, lag }), { final });
  };
  /** Changes what no role may change, as a bug or a person with too many rights would. */
  const break_ = (statement: string) =>
    admin.transaction(async (tx) => {
      await tx.query('SET LOCAL session_replication_role = replica');
      await tx.query(statement);
    });
  return { system, audit, break_ };
}

type System = Awaited<ReturnType<typeof aSystem>>;

const loserOf = (winner: AcceptedPayment) =>
  aPayment({ partner: winner.partnerId, key: winner.key, amount: 7n });

test('a system in which everything arrived has settled down without drift', async (context) => {
  const { system, audit } = await aSystem(context);
  const winner = aPayment({ amount: 1_000n });
  await system.pay(winner);
  await system.pay(aPayment({ amount: 500n }));
  await system.pay(aPayment({ partner: 'globex', amount: 300n, currency: 'JPY' }));
  await system.loseKey(loserOf(winner));
  const spoiled = { ...system.record(aPayment()), value: Buffer.from('{"half":') };
  await system.append([spoiled]);
  await system.deadLetter(spoiled, 'not_json');

  const { sums, ...result } = await audit();
  assert.deepEqual(result, {
    ok: true,
    settledDown: true,
    counts: {
      accepted: 5,
      ledger: 3,
      deadLettered: 1,
      keyConflicts: 1,
      charges: 0,
      events: 4,
      published: 4,
      inbox: 4,
      deliveries: 4,
    },
    drift: [],
    inFlight: { lag: { worker: 0, accepted: 0, deadLetters: 0 }, waiting: [] },
  });
  const everywhere = (sum: { count: number; amount: number }) => ({
    accepted: sum,
    ledger: sum,
    published: sum,
    delivered: sum,
  });
  assert.deepEqual(sums, [
    { partner: 'acme', currency: 'EUR', ...everywhere({ count: 2, amount: 1_500 }) },
    { partner: 'globex', currency: 'JPY', ...everywhere({ count: 1, amount: 300 }) },
  ]);
});

test('an empty system has settled down without drift', async (context) => {
  const { ok, settledDown } = await (await aSystem(context)).audit();
  assert.deepEqual([ok, settledDown], [true, true]);
});

test('the same request appended and delivered again changes no figure', async (context) => {
  const { system, audit } = await aSystem(context);
  const payment = aPayment();
  await system.pay(payment);
  const before = await audit();
  await system.accept(payment);
  await system.post(payment);
  await system.see(eventOf(payment));
  await system.notify(eventOf(payment));
  assert.deepEqual(await audit(), before);
});

test('what is in flight is no drift until waiting is over', async (context) => {
  const { system, audit } = await aSystem(context);
  const payment = aPayment();
  await system.accept(payment);
  const waiting = [
    { check: 'accepted-unaccounted', ids: [payment.txnId] },
    { check: 'sums-differ', ids: ['acme/EUR'] },
  ];
  const early = await audit();
  assert.deepEqual([early.ok, early.settledDown], [true, false]);
  assert.deepEqual(early.inFlight.waiting, waiting);
  const final = await audit({ final: true });
  assert.deepEqual([final.ok, final.drift], [false, waiting]);
});

test('a system with a lag has not settled down', async (context) => {
  const { audit } = await aSystem(context);
  const early = await audit({ workerLag: 3 });
  assert.deepEqual([early.ok, early.settledDown, early.inFlight.lag.worker], [true, false, 3]);
  const final = await audit({ workerLag: 3, final: true });
  assert.deepEqual(final.drift, [{ check: 'lag', ids: ['worker: 3'] }]);
});

/** For every check one thing that it exists to see, done to a system in which all was well. */
const sabotage: Record<string, (system: System, paid: AcceptedPayment) => Promise<unknown>> = {
  'accepted-unaccounted': ({ system }) => system.accept(aPayment()),
  'key-conflict-untold': async ({ system }, paid) => {
    await system.deadLetter(await system.accept(loserOf(paid)), 'key_conflict');
  },
  'key-conflict-unfounded': ({ system }, paid) => system.conflict(loserOf(paid)),
  'refused-record-not-dead-lettered': ({ system }) =>
    system.append([{ ...system.record(aPayment()), value: null }]),
  'dead-letter-unfounded': ({ system }) =>
    system.deadLetter({ ...system.record(aPayment()), value: null }, 'null_value'),
  'ledger-not-accepted': ({ system }) => system.post(aPayment()),
  'ledger-unfinished': ({ system }) => system.begin(aPayment()),
  'event-unpublished': ({ system }) => system.post(aPayment()),
  'published-unseen': ({ break_ }) => break_('DELETE FROM auditor.published'),
  'inbox-missing': ({ break_ }) => break_('DELETE FROM notifier.inbox'),
  'delivery-waiting': ({ break_ }) =>
    break_(`UPDATE notifier.deliveries SET state = 'pending', finished_at = NULL`),
  'ledger-differs-from-accepted': ({ break_ }) =>
    break_('UPDATE ledger.transactions SET amount = amount + 1'),
  'ledger-id-underived': ({ break_ }) =>
    break_(`UPDATE ledger.transactions SET idempotency_key = 'another'`),
  'entry-differs-from-ledger': ({ break_ }) => break_('DELETE FROM ledger.entries'),
  'event-differs-from-ledger': ({ break_ }) => break_('DELETE FROM ledger.outbox'),
  'event-tells-otherwise': ({ break_ }) =>
    break_(`UPDATE ledger.outbox SET payload = replace(payload, '1250', '1251')`),
  'sequence-has-a-gap': ({ break_ }) => break_('UPDATE ledger.outbox SET sequence = 2'),
  'event-parked': ({ break_ }) =>
    break_(`UPDATE ledger.outbox SET state = 'parked', parked_reason = 'too large',
            published_at = NULL, published_epoch = NULL`),
  'published-unfounded': ({ system }) => system.see(eventOf(aPayment())),
  'published-differs-from-outbox': ({ break_ }) =>
    break_(`UPDATE auditor.published SET payload_hash = 'another'`),
  'published-altered': ({ system }, paid) =>
    system.see({ ...eventOf(paid), timestamp: '2020-01-01T00:00:00.000Z' }),
  'inbox-unfounded': ({ system }) => system.notify(eventOf(aPayment())),
  'inbox-altered': ({ system }, paid) =>
    system.notify({ ...eventOf(paid), timestamp: '2020-01-01T00:00:00.000Z' }),
  'cursor-differs-from-inbox': ({ break_ }) =>
    break_('UPDATE notifier.cursors SET last_sequence = 2'),
  'delivery-differs-from-inbox': ({ break_ }) => break_('DELETE FROM notifier.deliveries'),
  'delivery-tells-otherwise': ({ break_ }) =>
    break_(`UPDATE notifier.deliveries SET partner_id = 'globex'`),
  'delivery-given-up': ({ break_ }) => break_(`UPDATE notifier.deliveries SET state = 'failed'`),
};

for (const { name, holds } of checks) {
  test(`${name} is seen, and its id is told`, async (context) => {
    const broken = await aSystem(context);
    const paid = aPayment();
    await broken.system.pay(paid);
    assert.deepEqual((await broken.audit()).settledDown, true);
    await sabotage[name]!(broken, paid);
    const { drift, inFlight } = await broken.audit();
    const where = holds === 'always' ? drift : inFlight.waiting;
    const found = where.find(({ check }) => check === name);
    assert.equal(found?.ids.length, 1, JSON.stringify({ drift, inFlight }));
    assert.equal((await broken.audit({ final: true })).ok, false);
  });
}

test('every check has its sabotage', () => {
  assert.deepEqual(checks.map(({ name }) => name).sort(), Object.keys(sabotage).sort());
});
