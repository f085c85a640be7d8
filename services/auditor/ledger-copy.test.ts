import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aPayment, createTestDatabase } from '@triplock/testing';
import { resultOf, observe } from './audit.ts';
import { ownersOf } from './test/event-hops.ts';
import { anAuditorOf, succeededEvent, wholeSystem } from './test/whole-system.ts';

test('what only the next copy of the ledger explains is no drift, and what it does not explain is', async (context) => {
  const store = await createTestDatabase(context);
  const system = wholeSystem(ownersOf(store));
  const [late, forged] = [aPayment(), aPayment()];
  let copies = 0;
  const copyLedger = async () => {
    copies += 1;
    // It was seen published after the first copy was made, and is in the second.
    if (copies === 1) await system.see(succeededEvent(late));
    if (copies === 2) await system.pay(late);
    return { transactions: 0, events: 0, moreFollows: false };
  };
  const parts = { ...anAuditorOf(store.open('triplock_auditor'), {}), copyLedger };
  assert.deepEqual(resultOf(await observe(parts), { final: false }).drift, []);
  await system.see(succeededEvent(forged));
  const { drift } = resultOf(await observe(parts), { final: false });
  const ids = [succeededEvent(forged).event_id];
  assert.deepEqual(drift, [{ check: 'published-unfounded', ids }]);
});

test('an audit that meets a copy between two slices waits for the last one', async (context) => {
  const store = await createTestDatabase(context);
  const [ledger, auditor] = [store.open('triplock_ledger'), store.open('triplock_auditor')];
  await ledger.query('INSERT INTO ledger.copied (until_micros, behind) VALUES (1, true)');
  let copies = 0;
  const copyLedger = async () => {
    copies += 1;
    // The first time another copier begins on the next backlog at once.
    if (copies === 2) await ledger.query('UPDATE ledger.copied SET behind = false');
    return { transactions: 0, events: 0, moreFollows: false };
  };
  assert.deepEqual((await observe({ ...anAuditorOf(auditor, {}), copyLedger })).findings, []);
  assert.equal(copies, 2);
});
