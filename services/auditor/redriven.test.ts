import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aPayment, createTestDatabase } from '@triplock/testing';
import { resultOf, observe } from './audit.ts';
import { ownersOf } from './test/event-hops.ts';
import { anAuditorOf, wholeSystem } from './test/whole-system.ts';

test('the audit balances when a redriven dead letter is as bad as before', async (context) => {
  const store = await createTestDatabase(context);
  const database = store.open('triplock_auditor');
  const system = wholeSystem(ownersOf(store));
  const winner = aPayment();
  const loser = aPayment({ partner: winner.partnerId, key: winner.key, amount: 7n });
  await system.pay(winner);
  await system.loseKey(loser);
  for (let time = 0; time < 2; time += 1) {
    const spoiled = { ...system.record(aPayment()), value: Buffer.from('{"half":') };
    await system.append([spoiled]);
    await system.deadLetter(spoiled, 'not_json');
  }
  // The request that lost its key, given back from the dead letters, loses it once more.
  const again = await system.accept(loser);
  await system.conflict(loser);
  await system.deadLetter(again, 'key_conflict');

  const { ok, counts } = resultOf(await observe(anAuditorOf(database)), { final: true });
  assert.equal(ok, true);
  const { accepted, ledger, deadLettered, keyConflicts } = counts;
  assert.deepEqual(
    { accepted, ledger, deadLettered, keyConflicts },
    {
      accepted: 4,
      ledger: 1,
      deadLettered: 2,
      keyConflicts: 1,
    },
  );
});
