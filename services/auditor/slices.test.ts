import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { aPayment, aRefund, createTestDatabase } from '@triplock/testing';
import { aScene, succeededEvent } from '@triplock/testing/test';
import { observe, resultOf } from './audit.ts';
import { checks } from './checks.ts';
import { closedSoFar, openStretches, unwatched, usualSlices } from './slices.ts';
import { differingSums, renderSums, type SumRow } from './sums.ts';
import { ownersOf } from './test/hops.ts';
import { harms } from './test/harms.ts';
import { anAuditorOf, wholeSystem } from './test/whole-system.ts';
import type { SliceLimits } from './windows.ts';

/** A system that is audited in slices of a few rows, which are closed at once. */
async function aSlicedSystem(
  context: TestContext,
  slices: SliceLimits = { ...usualSlices, rowsMax: 4, closeAfterSeconds: 0 },
) {
  const store = await createTestDatabase(context);
  const owners = ownersOf(store);
  const system = wholeSystem(owners);
  const database = owners.auditor;
  const [sliced, whole] = [anAuditorOf(database, { slices }), anAuditorOf(database)];
  const payAll = async (payments: number) => {
    for (let n = 0; n < payments; n += 1) await system.pay(aPayment());
  };
  return {
    owners,
    system,
    database,
    sliced,
    payAll,
    /** An audit that closes what it can; `full` looks at all that was closed before. */
    audit: async ({ full = false, underway = unwatched } = {}) =>
      resultOf(await observe(sliced, { full, underway }), { final: true }),
    /** One that closes nothing. */
    auditWhole: async () => resultOf(await observe(whole), { final: true }),
    closed: async () => (await closedSoFar(database)).nth,
  };
}

test('what came to its end is closed in slices, and the totals stay what they were', async (context) => {
  const { system, audit, auditWhole, payAll, closed, database } = await aSlicedSystem(context);
  const paid = aPayment({ amount: 900n });
  await system.pay(paid);
  await system.giveBack(aRefund(paid, { amount: 400n }), 2);
  await system.loseKey(aPayment({ partner: paid.partnerId, key: paid.key, amount: 7n }));
  await payAll(9);
  const before = await auditWhole();
  assert.deepEqual([before.ok, before.counts.accepted], [true, 12]);
  assert.deepEqual(await audit(), before);
  const slices = await closed();
  assert.ok(slices > 1, `${slices} slices`);
  const totals = await closedSoFar(database);
  assert.ok(totals.counts.accepted >= 6, `${totals.counts.accepted} are in closed slices`);

  await payAll(3);
  const later = await audit();
  assert.deepEqual([later.ok, later.counts.deliveries], [true, 15]);
  assert.deepEqual(await audit({ full: true }), later);
});

test('of what is newest nothing is closed before it is a whole slice', async (context) => {
  const { audit, payAll, closed } = await aSlicedSystem(context);
  await payAll(4);
  await audit();
  assert.equal(await closed(), 0);
});

test('what is so new that a row may still come with a time in it is left open, however much it is', async (context) => {
  const asUsual = { ...usualSlices, rowsMax: 4 };
  const { owners, audit, payAll, closed } = await aSlicedSystem(context, asUsual);
  await payAll(12);
  assert.equal((await audit()).ok, true);
  assert.equal(await closed(), 0);
  const slices = { ...usualSlices, rowsMax: 4, closeAfterSeconds: 0 };
  await observe(anAuditorOf(owners.auditor, { slices }));
  assert.ok((await closed()) > 0, 'it was enough for a slice');
});

test('a slice with something unfinished stays open until it is finished, and later ones are closed', async (context) => {
  const { system, sliced, audit, payAll, closed } = await aSlicedSystem(context);
  const late = aPayment();
  await system.accept(late);
  await system.post(late);
  await system.mark(succeededEvent(late).event_id);
  await payAll(12);
  assert.equal((await audit()).ok, false);
  const before = await closed();
  assert.ok(before > 0);
  assert.equal((await openStretches(sliced)).length, 2);

  const event = succeededEvent(late);
  await system.see(event);
  await system.consumeAll(event);
  await system.deliver(event.event_id);
  await system.break('UPDATE auditor.published SET first_seen = now() WHERE event_id = $1', [
    event.event_id,
  ]);
  const { ok, counts } = await audit();
  assert.deepEqual([ok, counts.published], [true, 13]);
  assert.ok((await closed()) > before);
});

test('a change in a closed slice is drift that names it, and is looked for again until it is mended', async (context) => {
  const { system, audit, payAll, closed } = await aSlicedSystem(context);
  await payAll(30);
  assert.equal((await audit()).ok, true);
  assert.ok((await closed()) > 4);
  const harmed = `
    UPDATE auditor.accepted SET amount = amount + 1
    WHERE first_seen = (SELECT min(first_seen) FROM auditor.accepted)`;
  await system.break(harmed);
  const { drift } = await audit({ full: true });
  assert.deepEqual(drift.map(({ check }) => check).sort(), [
    'closed-slice-differs',
    'ledger-differs-from-accepted',
  ]);
  const [differing] = drift.find(({ check }) => check === 'closed-slice-differs')!.ids;
  assert.match(differing!, /^1\/-infinity\/.*\/payments\/accepted\/acme\/EUR$/);
  assert.equal((await audit()).drift.length, 2, 'also by an audit that is not a full one');

  await system.break(harmed.replace('amount + 1', 'amount - 1'));
  assert.deepEqual((await audit()).drift, []);
});

test('a closed slice that says something else than when it was closed is drift', async (context) => {
  const { system, database, audit, payAll } = await aSlicedSystem(context);
  await payAll(12);
  await audit();
  for (const statement of [
    'UPDATE auditor.audit_slices SET counts = $1 WHERE nth = 1',
    'DELETE FROM auditor.audit_slices WHERE nth = 1',
  ]) {
    await assert.rejects(database.query(statement.replace('$1', `'{}'`)));
  }
  await system.break(
    `UPDATE auditor.audit_slices SET until_time = until_time - interval '1 ms' WHERE nth = 1`,
  );
  const { drift } = await audit({ full: true });
  assert.deepEqual(
    drift.find(({ check }) => check === 'closed-slice-altered'),
    { check: 'closed-slice-altered', ids: ['1'] },
  );
});

test('a full audit that is interrupted goes on where it was', async (context) => {
  const { audit, payAll, closed } = await aSlicedSystem(context);
  await payAll(20);
  await audit();
  const slices = await closed();
  assert.ok(slices >= 3);
  const compared: string[] = [];
  const abandon = new AbortController();
  const progress = (text: string) => {
    const [, nth] = /^comparing closed slice (\d+) of/.exec(text) ?? [];
    if (nth !== undefined) compared.push(nth);
    if (nth === '2') abandon.abort(new Error('enough'));
  };
  const interrupted = audit({ full: true, underway: { progress, signal: abandon.signal } });
  await assert.rejects(interrupted, /enough/);
  const { signal } = unwatched;
  assert.equal((await audit({ full: true, underway: { progress, signal } })).ok, true);
  const all = Array.from({ length: slices }, (_, at) => String(at + 1));
  assert.deepEqual(compared, all);
});

test('what adds up whole tables is looked at by a full audit', async (context) => {
  const { system, audit, payAll, closed } = await aSlicedSystem(context);
  await payAll(12);
  assert.equal((await audit()).ok, true);
  assert.ok((await closed()) > 0);
  await system.break('UPDATE ledger.outbox_horizon SET events = 5');
  assert.deepEqual((await audit()).drift, []);
  const ids = ['ledger.outbox/0/5'];
  const drift = [{ check: 'reaped-differs-from-missing', ids }];
  assert.deepEqual((await audit({ full: true })).drift, drift);
});

test('every harm in a closed slice is found by a full audit', async (context) => {
  const { system, database, owners, sliced } = await aSlicedSystem(context, {
    ...usualSlices,
    rowsMax: 1_000_000,
    closeAfterSeconds: 0,
  });
  const harmed: { check: string; nth: number; id: string }[] = [];
  // What takes no window is looked at by every audit, or adds up what no slice is about.
  for (const { name: check } of checks.filter(({ takesWindow }) => takesWindow)) {
    for (const [nth, { harm }] of harms[check]!.entries()) {
      harmed.push({ check, nth, id: await harm(await aScene(system)) });
    }
  }
  // As if all of it had been well when it was closed.
  await owners.admin.query(
    `INSERT INTO auditor.audit_slices (nth, from_time, until_time, counts, sums, hash)
     SELECT 1, '-infinity', now(), '{}', '[]',
            auditor.slice_hash(NULL, 1, '-infinity', now(), '{}', '[]')`,
  );
  await database.query('UPDATE auditor.full_audit SET next_nth = 1');
  // What the provider has is in its journal already.
  const catchUp = async () => ({ outcome: 'compared' }) as const;
  const asked = { ...sliced, journal: { ...sliced.journal, catchUp } };
  const { findings } = await observe(asked, { full: true, underway: unwatched });
  const unseen = harmed.filter(({ check, id }) => {
    return !findings.some((found) => {
      return found.check === check && found.rows.some((row) => row.id === id);
    });
  });
  assert.deepEqual(unseen, []);
});

/**
 * Two payments, one of them partly refunded, as every layer has them, but for what a test wishes.
 */
function rowsOf(wish: Readonly<Record<string, Partial<SumRow>>> = {}, partner = 'acme'): SumRow[] {
  const usual = {
    payments: ['accepted', 'ledger', 'unfinished', 'published', 'undelivered', 'delivered'],
    gross: ['ledger', 'published', 'undelivered', 'delivered'],
    refunds: ['ledger', 'published', 'undelivered', 'delivered'],
    charged: ['ledger', 'provider'],
    givenBack: ['ledger', 'provider'],
  };
  return Object.entries(usual).flatMap(([figure, layers]) =>
    layers.map((layer) => {
      const isWait = layer.startsWith('un');
      const amount = isWait ? '0' : figure === 'refunds' ? '4' : '9';
      const count = isWait ? '0' : '2';
      const row = { partner, currency: 'EUR', figure, layer, count, amount };
      return { ...row, ...wish[`${figure}/${layer}`] };
    }),
  );
}

test('sums differ by one minor unit, by one transaction, or where a layer has nothing', () => {
  assert.deepEqual(differingSums(rowsOf(), { unread: [] }), []);
  for (const [layer, wish] of [
    ['payments/delivered', { amount: '8' }],
    ['payments/ledger', { count: '3' }],
    ['gross/published', { amount: '10' }],
    ['refunds/delivered', { amount: '3' }],
    ['refunds/ledger', { layer: 'nowhere' }],
    ['charged/provider', { amount: '8' }],
    ['givenBack/ledger', { count: '1' }],
    ['payments/unfinished', { amount: '1' }],
    ['refunds/undelivered', { count: '1' }],
  ] as const) {
    const rows = [...rowsOf(), ...rowsOf({ [layer]: wish }, 'globex')];
    assert.deepEqual(differingSums(rows, { unread: [] }), ['globex/EUR'], layer);
  }
});

test('what waits for others is a part of what the layers before it have', () => {
  const one = (amount: string) => ({ count: '1', amount });
  const rows = rowsOf({
    'payments/published': one('6'),
    'payments/unfinished': one('3'),
    'payments/delivered': { count: '0', amount: '0' },
    'payments/undelivered': one('6'),
  });
  assert.deepEqual(differingSums(rows, { unread: [] }), []);
});

test('a provider that was not asked differs from nobody, and hides no other one', () => {
  const of = (provider: string) => ({ provider });
  const ofStripe = { ...of('stripe'), amount: '8' };
  const rows = rowsOf({ 'charged/ledger': of('stripe'), 'charged/provider': ofStripe });
  assert.deepEqual(differingSums(rows, { unread: [] }), ['acme/EUR']);
  assert.deepEqual(differingSums(rows, { unread: ['stripe'] }), []);
  assert.deepEqual(differingSums(rows, { unread: ['giro'] }), ['acme/EUR']);
  // What one has too much of is not made up for by what the other one lacks.
  const [more, less] = [{ amount: '10' }, { amount: '8' }];
  const [first] = rowsOf({ 'charged/ledger': of('stripe') });
  const both = [
    ...rowsOf({ 'charged/ledger': of('stripe'), 'charged/provider': { ...of('stripe'), ...more } }),
    ...['ledger', 'provider'].map((layer) => {
      const row = { ...first!, figure: 'charged', layer, count: '2', ...of('giro') };
      return { ...row, amount: layer === 'ledger' ? '9' : less.amount };
    }),
  ];
  assert.deepEqual(differingSums(both, { unread: [] }), ['acme/EUR']);
  assert.deepEqual(renderSums(both)[0]!.cards.charged, {
    ledger: { count: 4, amount: 18 },
    provider: { count: 4, amount: 18 },
  });
});

test('what is left of the payments is gross without refunds', () => {
  const [sums] = renderSums(rowsOf());
  assert.deepEqual(sums!.gross.ledger, { count: 2, amount: 9 });
  assert.deepEqual(sums!.refunds.delivered, { count: 2, amount: 4 });
  assert.equal(sums!.net, 5);
});

test('a sum that JSON numbers would round is shown as text', () => {
  const [sums] = renderSums(rowsOf({ 'payments/accepted': { amount: '9007199254740993' } }));
  assert.deepEqual([sums!.accepted.amount, sums!.ledger.amount], ['9007199254740993', 9]);
});
