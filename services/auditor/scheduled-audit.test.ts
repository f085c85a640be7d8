import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { aPayment, createTestDatabase } from '@triplock/testing';
import { auditRoute } from './audit.ts';
import { openAuditRuns, scheduledAudit } from './scheduled-audit.ts';
import { ownersOf } from './test/event-hops.ts';
import { anAuditorOf, lagOf, wholeSystem } from './test/whole-system.ts';

const everyMs = 60_000;

/** Auditors on one database, and the system that they audit. */
async function scheduledAudits(context: TestContext, ourMs: number, outsiderMs = ourMs) {
  const store = await createTestDatabase(context);
  const owner = store.open();
  const system = wholeSystem(ownersOf(store));
  const anAuditor = () => {
    const database = store.open('triplock_auditor');
    const auditor = anAuditorOf(database);
    const { metrics } = auditor;
    const pass = scheduledAudit(auditor, {
      runs: openAuditRuns(database, everyMs),
      overdueMs: { system: ourMs, outsider: outsiderMs, bank: outsiderMs },
    });
    const drift = async () =>
      (await metrics.drift.get()).values
        .filter(({ value }) => value > 0)
        .map(({ labels, value }) => [labels['check'], value]);
    return { pass, drift, database };
  };
  const audits = async () => {
    const sql = `SELECT run::int, extract(epoch FROM due_at - now())::int AS due, took_ms AS "tookMs"
                 FROM auditor.scheduled_audit`;
    return (await owner.query<{ run: number; due: number; tookMs: number }>(sql))[0]!;
  };
  const makeDue = (tookMs = 0) =>
    owner.query(`UPDATE auditor.scheduled_audit SET due_at = now(), took_ms = $1`, [tookMs]);
  return { system, anAuditor, audits, makeDue };
}

test('a scheduled audit calls what is overdue drift, and nothing before', async (context) => {
  for (const [overdueMs, found] of [
    [3_600_000, []],
    [-1, [['accepted-unaccounted', 1]]],
  ] as const) {
    const { system, anAuditor } = await scheduledAudits(context, overdueMs);
    const { pass, drift } = anAuditor();
    await system.accept(aPayment());
    await pass();
    assert.deepEqual(await drift(), found);
  }
});

test('a customer and a partner may take longer than the system itself', async (context) => {
  const { system, anAuditor, makeDue } = await scheduledAudits(context, -1, 3_600_000);
  const { pass, drift } = anAuditor();
  const [authenticating, redelivered] = [aPayment({ paymentMethod: 'pm_card_visa' }), aPayment()];
  await system.accept(authenticating);
  await system.begin(authenticating);
  await system.storeIntent(authenticating, 'pi-1');
  await system.pay(redelivered);
  await system.break(
    `UPDATE notifier.deliveries SET state = 'pending', finished_at = NULL, first_attempt_at = NULL,
       created_at = now() - interval '9 days', next_attempt_at = now()`,
  );
  await pass();
  // There is nobody to ask about the card.
  assert.deepEqual(await drift(), [['not-compared', 1]]);

  const unasked = aPayment({ paymentMethod: 'pm_card_visa' });
  await system.accept(unasked);
  await system.begin(unasked);
  await makeDue();
  await pass();
  assert.deepEqual((await drift()).sort(), [
    ['ledger-unfinished', 1],
    ['not-compared', 1],
  ]);
});

test('of many auditors one audits when it is due, and all report what it found', async (context) => {
  const { system, anAuditor, audits, makeDue } = await scheduledAudits(context, -1);
  const auditors = [anAuditor(), anAuditor(), anAuditor()];
  const everyone = () => Promise.all(auditors.map(({ pass }) => pass()));
  await everyone();
  assert.equal((await audits()).run, 1);

  await system.accept(aPayment());
  await everyone();
  assert.equal((await audits()).run, 1);
  await makeDue();
  await everyone();
  await everyone();
  assert.equal((await audits()).run, 2);
  for (const { drift } of auditors) {
    assert.deepEqual(await drift(), [['accepted-unaccounted', 1]]);
  }
});

test('an audit that takes long comes less often, and is not begun by another before it is over', async (context) => {
  const { anAuditor, audits, makeDue } = await scheduledAudits(context, 0);
  const runs = openAuditRuns(anAuditor().database, everyMs);
  await makeDue(10_000);
  const run = await runs.take();
  assert.equal((await audits()).due, 100);
  await runs.end(run!, { tookMs: 20_000, drift: {}, inFlight: {}, inFlightSince: {} });
  assert.partialDeepStrictEqual(await audits(), { due: 180, tookMs: 20_000 });
});

test('audits that outlast the time between two come less often at last, and one is recorded', async (context) => {
  const { anAuditor, audits, makeDue } = await scheduledAudits(context, 0);
  const runs = openAuditRuns(anAuditor().database, everyMs);
  const found = { tookMs: 90_000, drift: {}, inFlight: {}, inFlightSince: {} };
  const overtaken = await runs.take();
  await makeDue();
  const run = await runs.take();
  await runs.end(overtaken!, found);
  // Ten times as long as the audit that was overtaken took: the other one is over by then.
  assert.partialDeepStrictEqual(await audits(), { due: 810, tookMs: 90_000 });
  assert.equal((await runs.last()).endedAt, null);
  await runs.end(run!, found);
  assert.notEqual((await runs.last()).endedAt, null);
});

test('an auditor that was overtaken leaves no result', async (context) => {
  const { anAuditor, makeDue } = await scheduledAudits(context, 0);
  const runs = openAuditRuns(anAuditor().database, everyMs);
  const overtaken = await runs.take();
  await makeDue();
  const run = await runs.take();
  const found = (ids: number) => ({
    tookMs: ids,
    drift: { 'event-parked': ids },
    inFlight: {},
    inFlightSince: {},
  });
  await runs.end(run!, found(1));
  await runs.end(overtaken!, found(2));
  assert.partialDeepStrictEqual(await runs.last(), { ...found(1), tookMs: 2 });
});

test('an audit that cannot see says so and gives no result', async (context) => {
  const { database } = (await scheduledAudits(context, 0)).anAuditor();
  const away = { ...lagOf(0), end: () => Promise.reject(new Error('no broker answers')) };
  const auditor = anAuditorOf(database);
  const ask = auditRoute({ ...auditor, lag: { ...auditor.lag, worker: away } });
  const answer = await ask(new URLSearchParams());
  assert.equal(answer.status, 503);
  assert.match(JSON.stringify(answer.body), /no broker answers/);
});
