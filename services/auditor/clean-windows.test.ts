import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { aPayment, createTestDatabase } from '@triplock/testing';
import { observe, resultOf, type Auditor } from './audit.ts';
import { cleanWindows, type CleanWindows } from './clean-windows.ts';
import { openAuditRuns, scheduledAudit } from './scheduled-audit.ts';
import { closeSlices, unwatched, usualSlices } from './slices.ts';
import { ownersOf } from './test/hops.ts';
import { anAuditorOf, wholeSystem } from './test/whole-system.ts';
import { noTotals, type Look, type SliceLimits } from './windows.ts';

const slices: SliceLimits = { ...usualSlices, restSeconds: 0 };

/** A system, and its auditor, who expects no row any more once it is there. */
async function anAuditedSystem(context: TestContext, limits: Partial<SliceLimits> = {}) {
  const store = await createTestDatabase(context);
  const owners = ownersOf(store);
  const auditor = anAuditorOf(owners.auditor, { slices: { ...slices, ...limits } });
  return { auditor, system: wholeSystem(owners), owners };
}

/** An audit like those of a schedule, at whose end nothing is waited for. */
const audit = async (auditor: Auditor, clean?: CleanWindows) =>
  resultOf(await observe(auditor, { full: false, underway: unwatched, ...(clean && { clean }) }), {
    final: true,
  });

/** A look that found so many requests, and nothing else. */
const lookAt = (accepted: number): Look => ({
  findings: [],
  tookMs: new Map(),
  sums: [],
  counts: { ...noTotals.counts, accepted },
});
const time = (second: number) => `2026-01-01 00:00:0${second}+00`;
const between = (from: number, until: number) => ({ from: time(from), until: time(until) });

/** So much was looked at again just now that nothing is again for hours. */
async function lookedAgain(clean: CleanWindows, { database }: Auditor): Promise<void> {
  clean.add(between(8, 9), lookAt(1_000_000));
  await clean.take(database);
}

test('an audit that takes clean windows as they were says what one does that looks at everything', async (context) => {
  const { auditor, system } = await anAuditedSystem(context);
  const clean = cleanWindows(slices);
  await lookedAgain(clean, auditor);
  for (const payments of [3, 0, 2]) {
    for (let n = 0; n < payments; n += 1) await system.pay(aPayment());
    const seen = await audit(auditor, clean);
    assert.equal(seen.ok, true);
    assert.deepEqual(seen, await audit(auditor));
  }
  const [known, ...others] = await clean.take(auditor.database);
  assert.deepEqual([known!.from, known!.counts.accepted, others], ['-infinity', 5, []]);
  await system.break('UPDATE auditor.accepted SET amount = amount + 1');
  assert.equal((await audit(auditor, clean)).ok, true, 'it looks at none of them again');
  assert.equal((await audit(auditor)).ok, false);
});

test('a clean window is looked at again in its turn, the sooner the less is in it', async (context) => {
  const { auditor, system } = await anAuditedSystem(context);
  const clean = cleanWindows(slices);
  const paid = aPayment();
  await system.pay(paid);
  assert.equal((await audit(auditor, clean)).ok, true);
  await system.break('UPDATE auditor.accepted SET amount = amount + 1');
  assert.partialDeepStrictEqual((await audit(auditor, clean)).drift, [
    { check: 'ledger-differs-from-accepted', ids: [paid.txnId] },
  ]);
});

test('a window in which something is wrong or unfinished is looked at every time', async (context) => {
  const { auditor, system } = await anAuditedSystem(context);
  const clean = cleanWindows(slices);
  await lookedAgain(clean, auditor);
  const waiting = aPayment();
  await system.accept(waiting);
  for (let times = 0; times < 2; times += 1) {
    const { drift } = await audit(auditor, clean);
    assert.deepEqual(drift[0], { check: 'accepted-unaccounted', ids: [waiting.txnId] });
    assert.equal(clean.forget(), false);
  }
});

test('neighbours are one window while they hold few enough rows', async (context) => {
  const { auditor } = await anAuditedSystem(context);
  const clean = cleanWindows({ rowsMax: 10 });
  await lookedAgain(clean, auditor);
  clean.add(between(1, 2), lookAt(4));
  clean.add(between(2, 3), lookAt(6));
  clean.add(between(3, 4), lookAt(1));
  clean.add(between(5, 6), lookAt(1));
  const known = await clean.take(auditor.database);
  assert.deepEqual(
    known.map(({ from, until, counts }) => [from, until, counts.accepted]),
    [
      [time(1), time(3), 10],
      [time(3), time(4), 1],
      [time(5), time(6), 1],
    ],
  );
});

test('one that comes between two is one with both, where all three hold few enough rows', async (context) => {
  const { auditor } = await anAuditedSystem(context);
  const clean = cleanWindows({ rowsMax: 10 });
  await lookedAgain(clean, auditor);
  clean.add(between(3, 4), lookAt(4));
  clean.add(between(1, 2), lookAt(4));
  clean.add(between(2, 3), lookAt(2));
  const known = await clean.take(auditor.database);
  assert.deepEqual(
    known.map(({ from, until, counts }) => [from, until, counts.accepted]),
    [[time(1), time(4), 10]],
  );
});

test('however much is wrong between them, a bounded number is remembered, and what is forgotten is looked at again', async (context) => {
  const { auditor, system } = await anAuditedSystem(context, { rowsMax: 1 });
  const clean = cleanWindows({ rowsMax: 1, windowsMax: 2 });
  await lookedAgain(clean, auditor);
  const payments = Array.from({ length: 5 }, () => aPayment());
  for (const payment of payments) await system.pay(payment);
  for (let times = 0; times < 2; times += 1) {
    const seen = await audit(auditor, clean);
    assert.deepEqual([seen.ok, seen.counts.accepted], [true, 5]);
    assert.ok((await clean.take(auditor.database)).length <= 2);
  }
  await system.break('UPDATE auditor.accepted SET amount = amount + 1');
  const { drift } = await audit(auditor, clean);
  const found = drift.find(({ check }) => check === 'ledger-differs-from-accepted')?.ids ?? [];
  assert.ok(found.length >= payments.length - 2, `${found.length} of ${payments.length} found`);
});

test('a window is forgotten once a slice of it is closed', async (context) => {
  const { auditor, system } = await anAuditedSystem(context, { rowsMax: 4 });
  const clean = cleanWindows(slices);
  await lookedAgain(clean, auditor);
  for (let payments = 0; payments < 9; payments += 1) await system.pay(aPayment());
  assert.equal((await audit(auditor, clean)).ok, true);
  const before = await clean.take(auditor.database);
  const closing = { ...auditor, slices: { ...auditor.slices, closeAfterSeconds: 0 } };
  const closed = await closeSlices(closing, { unread: [], underway: unwatched });
  assert.ok(closed > 0);
  const after = await clean.take(auditor.database);
  assert.ok(after.length < before.length, `${after.length} of ${before.length}`);
  const seen = await audit(auditor, clean);
  assert.deepEqual([seen.ok, seen.counts.accepted], [true, 9]);
});

test('a row that comes to a clean window late is no drift', async (context) => {
  const { auditor, system } = await anAuditedSystem(context, { rowsMax: 1 });
  const pass = scheduledAudit(auditor, {
    runs: openAuditRuns(auditor.database, 60_000),
    overdueMs: -1,
  });
  let newest = aPayment();
  for (let payments = 0; payments < 3; payments += 1) {
    newest = aPayment();
    await system.pay(newest);
  }
  await pass();
  // Settled by a worker whose clock is slow.
  await system.pay(aPayment({ acceptedAt: newest.acceptedAt }));
  await system.break('UPDATE auditor.scheduled_audit SET due_at = now()');
  await pass();
  const { values } = await auditor.metrics.drift.get();
  assert.deepEqual(
    values.filter(({ value }) => value > 0),
    [],
  );
});
