import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createTestRelay, eventually } from '@triplock/testing';
import { describeOnce } from './once.conformance.ts';
import { ageKey, database, databaseUrl, openWay, store } from './test/once-database.ts';
import { once, type OnceStore, type StartOutcome } from './once.ts';
import { openPostgresOnce } from './postgres-once.ts';
import { aStep, counting, hourMs } from './test/once-under-test.ts';

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

test('a start that waited while another one was at work has the larger fence', async () => {
  const step = aStep();
  const release = async (on: OnceStore, start: StartOutcome) => {
    assert.ok(start.outcome === 'started');
    assert.equal(
      await on.finish({ ...step, token: start.token }, { state: 'released' }),
      'finished',
    );
    return start.fence;
  };
  await release(store, await store.start(step));
  const { between, waited } = await database.transaction(async (tx) => {
    await tx.query('SELECT FROM once WHERE scope = $1 FOR UPDATE', [step.scope]);
    const waiting = store.start(step);
    await eventually(isAnyBlocked);
    const atWork = openPostgresOnce(tx);
    return { between: await release(atWork, await atWork.start(step)), waited: { waiting } };
  });
  const after = await release(store, await waited.waiting);
  assert.ok(after > between, `${after} after ${between}`);
});

/** Whether a statement in this database waits for another one's lock. */
async function isAnyBlocked(): Promise<boolean> {
  const sql = `SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'`;
  return (await database.query(sql)).length > 0;
}
