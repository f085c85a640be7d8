import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { Gauge } from '@triplock/runtime';
import { aPayment, createTestDatabase, eventually } from '@triplock/testing';
import { succeededEvent } from '@triplock/testing/test';
import { auditRoute } from './audit-route.ts';
import { openAuditRuns, scheduledAudit } from './scheduled-audit.ts';
import { ownersOf } from './test/hops.ts';
import { anAuditorOf, lagOf, wholeSystem } from './test/whole-system.ts';

const everyMs = 60_000;

/** An audit that found nothing. */
const nothing = { drift: {}, inFlight: {}, inFlightSince: {}, waiting: {}, waitingSince: {} };

/** Auditors on one database, and the system that they audit. */
async function scheduledAudits(context: TestContext, overdueMs: number) {
  const store = await createTestDatabase(context);
  const owner = store.open();
  const system = wholeSystem(ownersOf(store));
  const anAuditor = () => {
    const database = store.open('triplock_auditor');
    const auditor = anAuditorOf(database);
    const { metrics } = auditor;
    const pass = scheduledAudit(auditor, {
      runs: openAuditRuns(database, everyMs),
      overdueMs,
    });
    const shown = async (gauge: Gauge<'check'>) =>
      (await gauge.get()).values
        .filter(({ value }) => value > 0)
        .map(({ labels, value }) => [labels['check'], value]);
    const drift = () => shown(metrics.drift);
    const waiting = () => shown(metrics.waiting);
    return { pass, drift, waiting, database };
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

test('what must always hold is excused while what was told is taken over, and no longer than that may take', async (context) => {
  const both = [
    ['ledger-history-changed', 1],
    ['told-otherwise', 1],
  ];
  for (const [overdueMs, found] of [
    [3_600_000, []],
    [-1, both],
  ] as const) {
    const { system, anAuditor } = await scheduledAudits(context, overdueMs);
    const { pass, drift } = anAuditor();
    await system.break(`
      INSERT INTO ledger.told
        (event_id, event_type, txn_id, payment_id, sequence, happened_at, state)
      VALUES (gen_random_uuid(), 'payment.failed', gen_random_uuid(), gen_random_uuid(), 1, now(),
        'failed')`);
    await system.break(`INSERT INTO ledger.copy_differences (kind, id) VALUES ('rows', 'entry')`);
    await pass();
    assert.deepEqual((await drift()).toSorted(), found);
  }
});

test('a customer, a bank and a partner may take longer than the system itself, and are no drift', async (context) => {
  const { system, anAuditor, makeDue } = await scheduledAudits(context, -1);
  const { pass, drift, waiting } = anAuditor();
  const card = () => aPayment({ paymentMethod: 'pm_card_visa' });
  const [authenticating, banking] = [card(), card()];
  for (const [payment, waitsFor] of [
    [authenticating, 'customer'],
    [banking, 'bank'],
  ] as const) {
    await system.accept(payment);
    await system.begin(payment);
    await system.askOutside(payment, waitsFor);
  }
  const [refused, parked, givenUp] = [aPayment(), aPayment(), aPayment()];
  for (const payment of [refused, parked, givenUp]) await system.pay(payment);
  await system.failToDeliver(succeededEvent(refused).event_id, 'pending');
  await system.failToDeliver(succeededEvent(parked).event_id, 'parked');
  await system.failToDeliver(succeededEvent(givenUp).event_id, 'failed');
  await pass();
  // There is nobody to ask about the cards.
  assert.deepEqual(await drift(), [['not-compared', 1]]);
  assert.deepEqual((await waiting()).sort(), [
    ['bank-unfinished', 1],
    ['card-unfinished', 1],
    ['delivery-given-up', 1],
    ['delivery-parked', 1],
    ['delivery-refused', 1],
  ]);

  const unasked = card();
  await system.accept(unasked);
  await system.begin(unasked);
  await makeDue();
  await pass();
  assert.deepEqual((await drift()).sort(), [
    ['ledger-unfinished', 1],
    ['not-compared', 1],
  ]);
});

test('what Kafka lost is drift until it is acknowledged, each loss by itself, and the metric says so', async (context) => {
  const { system, anAuditor, makeDue } = await scheduledAudits(context, 3_600_000);
  const { pass, drift } = anAuditor();
  const lose = `
    INSERT INTO auditor.accepted_lost (topic, kafka_partition, from_offset, to_offset, why, whole_at)
    VALUES ('payments.accepted.v1', $1, 0, 3, 'dropped', now())`;
  for (const partition of [0, 1]) await system.break(lose, [partition]);
  const acknowledge = (id: number) =>
    system.break(
      `INSERT INTO auditor.operator_acts (act, subject, done_by, why)
       VALUES ('acknowledge', $1, 'ada', 'sent again')`,
      [`lost:${id}`],
    );
  const found: unknown[] = [];
  for (const acknowledged of [undefined, 1, 2]) {
    if (acknowledged !== undefined) await acknowledge(acknowledged);
    await makeDue();
    await pass();
    found.push(await drift());
  }
  assert.deepEqual(found, [[['accepted-lost', 2]], [['accepted-lost', 1]], []]);
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
  await runs.end(run!, { ...nothing, tookMs: 20_000 });
  assert.partialDeepStrictEqual(await audits(), { due: 180, tookMs: 20_000 });
});

test('audits that outlast the time between two come less often at last, and one is recorded', async (context) => {
  const { anAuditor, audits, makeDue } = await scheduledAudits(context, 0);
  const runs = openAuditRuns(anAuditor().database, everyMs);
  const found = { ...nothing, tookMs: 90_000 };
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
    ...nothing,
    tookMs: ids,
    drift: { 'event-parked': ids },
  });
  await runs.end(run!, found(1));
  await runs.end(overtaken!, found(2));
  assert.partialDeepStrictEqual(await runs.last(), { ...found(1), tookMs: 2 });
});

test('an audit that takes long says how far it is, and its ticket gives the result of the same one', async (context) => {
  const { database } = (await scheduledAudits(context, 0)).anAuditor();
  const auditor = anAuditorOf(database);
  const asked = Promise.withResolvers<void>();
  let audits = 0;
  const catchUp = async () => {
    audits += 1;
    await asked.promise;
    return auditor.journal.catchUp();
  };
  const patience = { answerAfterMs: 10, abandonAfterMs: 60_000 };
  const ask = auditRoute({ ...auditor, journal: { ...auditor.journal, catchUp } }, patience);
  const { status, body } = await ask(new URLSearchParams());
  assert.equal(status, 202);
  const { ticket, progress } = body as { ticket: string; progress: string };
  assert.equal(progress, 'begun');
  const again = () => ask(new URLSearchParams({ ticket }));
  assert.equal((await again()).status, 202);
  asked.resolve();
  const answer = await eventually(async () => {
    const later = await again();
    return later.status !== 202 && later;
  });
  assert.partialDeepStrictEqual(answer, { status: 200, body: { ok: true } });
  assert.deepEqual([(await again()).status, audits], [404, 1]);
});

test('an audit that nobody asks for any more ends', async (context) => {
  const { database } = (await scheduledAudits(context, 0)).anAuditor();
  const auditor = anAuditorOf(database);
  const never = { ...auditor.journal, catchUp: () => new Promise<never>(() => undefined) };
  const patience = { answerAfterMs: 1, abandonAfterMs: 1 };
  const ask = auditRoute({ ...auditor, journal: never }, patience);
  const { ticket } = (await ask(new URLSearchParams())).body as { ticket: string };
  await eventually(async () => (await ask(new URLSearchParams({ ticket }))).status === 404);
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
