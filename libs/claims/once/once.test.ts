import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createTestRelay } from '@triplock/testing';
import { describeOnce } from './once.conformance.ts';
import { ageKey, database, databaseUrl, openWay, store } from './once.testing.ts';
import { once } from './once.ts';
import { openPostgresOnce } from './postgres-once.ts';
import { aStep, counting, hourMs } from './step.testing.ts';

describeOnce('postgres', async (t) => {
  const relay = await createTestRelay(t, databaseUrl);
  return {
    store: openPostgresOnce(openWay(t, relay.url)),
    another: async () => openPostgresOnce(database),
    age: ageKey,
    relay,
  };
});

test('keys that expired an hour ago leave in small batches', async () => {
  const steps = [aStep(), aStep(), aStep()];
  for (const step of steps) await once(store, step, counting().effect);
  for (const step of steps.slice(1)) await ageKey(step, 26 * hourMs);
  assert.equal(await store.reap({ rowsMax: 1 }), 1);
  assert.equal(await store.reap({ rowsMax: 9 }), 1);
  assert.equal(await store.reap({ rowsMax: 9 }), 0);
  assert.equal((await once(store, steps[0]!, counting().effect)).outcome, 'replayed');
});
