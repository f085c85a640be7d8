import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createLogger, createMetrics } from '@triplock/runtime';
import { aPayment, createTestDatabase } from '@triplock/testing';
import { auditPass } from './audit-loop.ts';
import { auditRoute } from './audit-route.ts';
import { auditorMetrics } from './metrics.ts';
import { lagOf, wholeSystem } from './whole-system.testing.ts';

const noLag = { worker: lagOf(0), accepted: lagOf(0), deadLetters: lagOf(0) };

async function aScheduledAudit(context: TestContext, overdueMs: number) {
  const store = await createTestDatabase(context);
  const system = wholeSystem({
    ledger: store.open('triplock_ledger'),
    notifier: store.open('triplock_notifier'),
    auditor: store.open('triplock_auditor'),
    admin: store.open(),
  });
  const metrics = auditorMetrics(createMetrics('test'));
  const pass = auditPass({
    database: store.open('triplock_auditor'),
    lag: noLag,
    metrics,
    logger: createLogger({ service: 'test', instance: 'test', level: 'silent' }),
    overdueMs,
  });
  const drift = async () =>
    (await metrics.drift.get()).values.map(({ labels, value }) => [labels['check'], value]);
  return { system, pass, drift, database: store.open('triplock_auditor') };
}

test('a scheduled audit calls what is overdue drift, and nothing before', async (context) => {
  const early = await aScheduledAudit(context, 3_600_000);
  await early.system.accept(aPayment());
  await early.pass();
  assert.deepEqual(await early.drift(), []);

  const late = await aScheduledAudit(context, -1);
  await late.system.accept(aPayment());
  await late.pass();
  assert.deepEqual(await late.drift(), [['accepted-unaccounted', 1]]);
});

test('a scheduled audit rests nine times as long as it took', async (context) => {
  const { system, pass, drift } = await aScheduledAudit(context, -1);
  await pass();
  await system.accept(aPayment());
  await pass();
  assert.deepEqual(await drift(), []);
});

test('an audit that cannot see says so instead of a verdict', async (context) => {
  const { database } = await aScheduledAudit(context, 0);
  const away = { ...lagOf(0), end: () => Promise.reject(new Error('no broker answers')) };
  const answer = await auditRoute({ database, lag: { ...noLag, worker: away } })(
    new URLSearchParams(),
  );
  assert.equal(answer.status, 503);
  assert.match(JSON.stringify(answer.body), /no broker answers/);
});
