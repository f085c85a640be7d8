import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { deriveId } from '@triplock/payments';
import { loadStatements } from '@triplock/postgres';
import { createTestDatabase } from '@triplock/testing';
import fc from 'fast-check';
import { checks } from './checks.ts';
import { aCardScene, sabotageAtProvider } from './test/harm-at-provider.ts';
import { sabotageOfSettlement } from './test/harm-settlement.ts';
import { aScene, sabotage } from './test/harm.ts';
import { ownersOf } from './test/event-hops.ts';
import { wholeSystem, type System } from './test/whole-system.ts';

const closing: (() => Promise<void>)[] = [];
let system: System;
let find: (sql: string) => Promise<string[]>;
/** Runs a statement as one who may do anything. */
let asOwner: (sql: string) => Promise<unknown>;
/** What the planner expects of a check over tables with so many rows on each of their pages. */
let costOf: (sql: string, rows: number) => Promise<number>;
before(async () => {
  const store = await createTestDatabase({ after: (close) => void closing.push(close) });
  const auditor = store.open('triplock_auditor');
  const admin = store.open();
  system = wholeSystem(ownersOf(store));
  asOwner = (sql) => admin.query(sql);
  costOf = async (sql, rows) => {
    await asOwner(
      `UPDATE pg_class SET relpages = 1, reltuples = ${rows}
       WHERE relkind = 'r' AND relnamespace::regnamespace::text = ANY (
         '{ledger,notifier,settlement,auditor}')`,
    );
    const [row] = await auditor.query<{ 'QUERY PLAN': [{ Plan: { 'Total Cost': number } }] }>(
      `EXPLAIN (FORMAT JSON) ${sql}`,
    );
    return row!['QUERY PLAN'][0].Plan['Total Cost'];
  };
  find = async (sql) => (await auditor.query<{ id: string }>(sql)).map(({ id }) => id);
});
after(() => Promise.all(closing.map((close) => close())));

test('cards that are in the journal and the ledger harm no check', async () => {
  const { paid, refund, intentId, chargeId, refundId } = await aCardScene(system);
  const ids = [paid.txnId, refund.txnId, intentId, chargeId, refundId];
  for (const { name, sql } of checks) {
    const found = (await find(sql)).filter((id) => ids.includes(id));
    assert.deepEqual(found, [], name);
  }
});

test('an audit of ten times as much takes about ten times as long', async () => {
  await aCardScene(system);
  for (let n = 0; n < 5; n += 1) await aScene(system);
  await asOwner('ANALYZE');
  const sums = loadStatements(import.meta.url, 'audit.sql', ['sumEverything', 'countEverything']);
  const whole = Object.entries(sums).map(([name, sql]) => ({ name, sql }));
  for (const { name, sql } of [...checks, ...whole]) {
    const [cost, later] = [await costOf(sql, 1_000_000), await costOf(sql, 10_000_000)];
    assert.ok(later < 30 * cost, `${name}: ${later} after ${cost}`);
  }
});

const allSabotage = { ...sabotage, ...sabotageAtProvider, ...sabotageOfSettlement };

for (const { name, sql } of checks) {
  test(`${name} is seen, and its id is named`, async () => {
    for (const [nth, harmIt] of allSabotage[name]!.entries()) {
      const scene = await aScene(system);
      const earlier = await find(sql);
      const id = await harmIt(scene);
      const found = (await find(sql)).filter((each) => !earlier.includes(each));
      assert.ok(found.includes(id), `${name}, ${nth}: ${id} is not in [${found.join(' ')}]`);
    }
  });
}

test('every check has its sabotage', () => {
  assert.deepEqual(checks.map(({ name }) => name).sort(), Object.keys(allSabotage).sort());
});

test("the auditor's own derivation of ids agrees with the vectors and with the domain", async (context) => {
  const database = (await createTestDatabase(context)).open('triplock_auditor');
  const derive = async (parts: readonly string[]) => {
    const sql = 'SELECT derive_id(VARIADIC $1::text[]) AS id';
    return (await database.query<{ id: string }>(sql, [parts]))[0]!.id;
  };
  const payment = await derive(['payment', 'acme', 'order-1001']);
  assert.equal(payment, '37585521-60c9-8d90-a37f-2e1b8a7081e6');
  assert.equal(
    await derive(['refund', 'acme', 'order-1001']),
    '66b9d384-d57e-8dad-9491-3751cc7aa855',
  );
  assert.equal(
    await derive(['event', payment, 'payment.succeeded']),
    '328391a9-46c9-8809-a8b6-3591db80e499',
  );
  const text = fc.string({ unit: 'grapheme' }).map((some) => some.replaceAll('\0', ''));
  await fc.assert(
    fc.asyncProperty(fc.array(text, { minLength: 1, maxLength: 4 }), async (parts) => {
      assert.equal(await derive(parts), deriveId(...parts));
    }),
    { numRuns: 50 },
  );
});
