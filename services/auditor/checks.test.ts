import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createTestDatabase } from '@triplock/testing';
import { checks } from './checks.ts';
import { aCardScene, sabotageAtProvider } from './harm-at-provider.testing.ts';
import { sabotageOfSettlement } from './harm-settlement.testing.ts';
import { aScene, sabotage } from './harm.testing.ts';
import { wholeSystem, type System } from './whole-system.testing.ts';

const closing: (() => Promise<void>)[] = [];
let system: System;
let find: (sql: string) => Promise<string[]>;
before(async () => {
  const store = await createTestDatabase({ after: (close) => void closing.push(close) });
  const auditor = store.open('triplock_auditor');
  system = wholeSystem({
    ledger: store.open('triplock_ledger'),
    notifier: store.open('triplock_notifier'),
    settlement: store.open('triplock_settlement'),
    auditor,
    admin: store.open(),
  });
  find = async (sql) => (await auditor.query<{ id: string }>(sql)).map(({ id }) => id);
});
after(() => Promise.all(closing.map((close) => close())));

test('cards that are in both books harm no check', async () => {
  const { paid, refund, intentId, chargeId, refundId } = await aCardScene(system);
  const ids = [paid.txnId, refund.txnId, intentId, chargeId, refundId];
  for (const { name, sql } of checks) {
    const found = (await find(sql)).filter((id) => ids.includes(id));
    assert.deepEqual(found, [], name);
  }
});

const allSabotage = { ...sabotage, ...sabotageAtProvider, ...sabotageOfSettlement };

for (const { name, sql } of checks) {
  test(`${name} is seen, and its id is told`, async () => {
    for (const [place, harmIt] of allSabotage[name]!.entries()) {
      const scene = await aScene(system);
      const earlier = await find(sql);
      const id = await harmIt(scene);
      const found = (await find(sql)).filter((each) => !earlier.includes(each));
      assert.ok(found.includes(id), `${name}, ${place}: ${id} is not in [${found.join(' ')}]`);
    }
  });
}

test('every check has its sabotage', () => {
  assert.deepEqual(checks.map(({ name }) => name).sort(), Object.keys(allSabotage).sort());
});
