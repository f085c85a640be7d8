import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { openInbox } from '@triplock/inbox';
import { openPostgresOutbox } from '@triplock/ledger';
import type { AcceptedPayment } from '@triplock/payments';
import { aPayment, createTestDatabase } from '@triplock/testing';
import { succeededEvent } from '@triplock/testing/test';
import { resultOf, observe } from './audit.ts';
import { ownersOf } from './test/hops.ts';
import { anAuditorOf, wholeSystem } from './test/whole-system.ts';

const dayMs = 86_400_000;
const horizon = { keepMs: 30 * dayMs, rowsMax: 100 };
const longAgo = (days: number) => new Date(Date.now() - days * dayMs);

/** A system whose payments can be made old, and whose old rows can leave layer by layer. */
async function anAgingSystem(context: TestContext) {
  const store = await createTestDatabase(context);
  const admin = store.open();
  const owners = ownersOf(store);
  const system = wholeSystem(owners);
  const withoutTriggers = (statements: readonly string[]) =>
    admin.transaction(async (tx) => {
      await tx.query('SET LOCAL session_replication_role = replica');
      for (const statement of statements) await tx.query(statement);
    });
  const parts = anAuditorOf(owners.auditor);
  return {
    system,
    withoutTriggers,
    audit: async () => resultOf(await observe(parts), { final: true }),
    /** Makes everything that is there so many days older. */
    age: (days: number) =>
      withoutTriggers([
        `UPDATE ledger.outbox SET created_at = created_at - interval '${days} days',
           published_at = published_at - interval '${days} days'`,
        `UPDATE auditor.published SET first_seen = first_seen - interval '${days} days'`,
        `UPDATE notifier.inbox SET received_at = received_at - interval '${days} days'`,
        `UPDATE webhooks.deliveries SET created_at = created_at - interval '${days} days',
           finished_at = finished_at - interval '${days} days'`,
        `UPDATE webhooks.delivery_attempts
           SET recorded_at = recorded_at - interval '${days} days'`,
      ]),
    reap: {
      outbox: () => openPostgresOutbox(owners.dispatcher).reap(horizon),
      inbox: () => openInbox(owners.notifier, 'partner-notifier').reap(horizon),
      deliveries: async () => {
        const sql = `SELECT webhooks.reap_deliveries(interval '30 days', interval '90 days', 100) AS reaped`;
        const [row] = await owners.notifier.query<{ reaped: number }>(sql);
        return row!.reaped;
      },
    },
  };
}

const oldPayment = (wish: Parameters<typeof aPayment>[0] = {}) =>
  aPayment({ ...wish, acceptedAt: longAgo(31) });

const loserOf = (winner: AcceptedPayment) =>
  aPayment({ partner: winner.partnerId, key: winner.key, amount: 7n, acceptedAt: longAgo(31) });

for (const order of [
  ['outbox', 'inbox', 'deliveries'],
  ['deliveries', 'inbox', 'outbox'],
  ['inbox', 'outbox', 'deliveries'],
] as const) {
  test(`the audit stays green while old rows leave ${order.join(', then ')}`, async (context) => {
    const { system, audit, age, reap } = await anAgingSystem(context);
    const winner = oldPayment();
    await system.pay(winner);
    await system.pay(oldPayment({ partner: 'globex', amount: 99n }));
    await system.loseKey(loserOf(winner));
    await age(31);
    await system.pay(aPayment());
    const before = await audit();
    assert.equal(before.ok, true);
    const left = { outbox: 2, inbox: 2, deliveries: 3 };
    for (const layer of order) {
      assert.equal(await reap[layer](), left[layer], layer);
      assert.deepEqual(await audit(), before, `after ${layer}`);
      assert.equal(await reap[layer](), 0, layer);
    }
  });
}

test('an event that was lost before its time is drift, also when others have left', async (context) => {
  const { system, audit, age, reap, withoutTriggers } = await anAgingSystem(context);
  await system.pay(oldPayment());
  await age(31);
  await reap.outbox();
  const payment = aPayment();
  await system.pay(payment);
  const eventId = succeededEvent(payment).event_id;
  await withoutTriggers([`DELETE FROM ledger.outbox WHERE event_id = '${eventId}'`]);
  const { drift } = await audit();
  assert.deepEqual(drift, [
    { check: 'event-differs-from-ledger', ids: [payment.txnId] },
    { check: 'published-unfounded', ids: [eventId] },
    { check: 'inbox-unfounded', ids: [eventId] },
  ]);
});

test('an inbox row or a delivery that was lost before its time is drift', async (context) => {
  const { system, audit, age, reap, withoutTriggers } = await anAgingSystem(context);
  await system.pay(oldPayment());
  await age(31);
  await reap.inbox();
  await reap.deliveries();
  const [one, other] = [aPayment(), aPayment()];
  await system.pay(one);
  await system.pay(other);
  const [lostInbox, lostDelivery] = [succeededEvent(one).event_id, succeededEvent(other).event_id];
  await withoutTriggers([
    `DELETE FROM notifier.inbox WHERE event_id = '${lostInbox}'`,
    `DELETE FROM webhooks.deliveries WHERE event_id = '${lostDelivery}'`,
  ]);
  const { drift } = await audit();
  const differing = drift.find(({ check }) => check === 'delivery-differs-from-inbox');
  assert.deepEqual([...differing!.ids].sort(), [lostDelivery, lostInbox].sort());
  assert.deepEqual(
    drift.find(({ check }) => check === 'inbox-missing'),
    { check: 'inbox-missing', ids: [lostInbox] },
  );
});

test('a copy that comes after inbox row and delivery have left has no effect', async (context) => {
  const { system, audit, age, reap } = await anAgingSystem(context);
  const payment = oldPayment();
  const loser = loserOf(payment);
  await system.pay(payment);
  await system.loseKey(loser);
  await age(31);
  for (const layer of ['deliveries', 'inbox', 'outbox'] as const) await reap[layer]();
  const before = await audit();
  assert.deepEqual(await system.notify(succeededEvent(payment)), { outcome: 'duplicate' });
  await system.conflict(loser);
  assert.deepEqual(await audit(), before);
});
