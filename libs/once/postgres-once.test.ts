import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createTestRelay, eventually } from '@triplock/testing';
import { describeOnce } from './once.conformance.ts';
import { createOnceDatabase, openWay } from './test/once-database.ts';
import { once, type OnceStore, type StartOutcome } from './once.ts';
import { openPostgresOnce } from './postgres-once.ts';
import { aStep, counting, hourMs } from './test/once-under-test.ts';

const { ageKey, database, databaseUrl, store } = await createOnceDatabase({ after });

describeOnce('postgres', async (t) => {
  const relay = await createTestRelay(t, databaseUrl);
  return {
    store: openPostgresOnce(openWay(t, relay.url)),
    another: async () => openPostgresOnce(database),
    age: ageKey,
    relay,
  };
});

test('keys that expired an hour ago leave in small batches, the oldest first, and no others', async () => {
  const [older, old, justOver, alive] = [aStep(), aStep(), aStep(), aStep()];
  const beside = { ...older, key: 'another key' };
  for (const step of [older, old, justOver, alive]) await once(store, step, counting().effect);
  await ageKey(older, 27 * hourMs);
  await once(store, beside, counting().effect);
  await ageKey(old, 26 * hourMs);
  await ageKey(justOver, 24.5 * hourMs);
  const isThere = async ({ scope, key }: typeof older) => {
    const sql = 'SELECT FROM once WHERE scope = $1 AND key = $2';
    return (await database.query(sql, [scope, key])).length > 0;
  };
  assert.equal(await store.reap({ rowsMax: 1 }), 1);
  assert.deepEqual([await isThere(older), await isThere(old)], [false, true]);
  assert.equal(await store.reap({ rowsMax: 9 }), 1);
  assert.equal(await store.reap({ rowsMax: 9 }), 0);
  for (const step of [justOver, beside, alive]) assert.equal(await isThere(step), true);
});

test('a start that waited for another request’s is refused, also when that one was given up', async () => {
  const step = aStep();
  const { waited } = await database.transaction(async (tx) => {
    const atWork = openPostgresOnce(tx);
    const begun = await atWork.start(step);
    const waiting = store.start({ ...step, fingerprint: 'another request' });
    await eventually(isAnyBlocked);
    await release(atWork, { step, start: begun });
    return { waited: { waiting } };
  });
  assert.deepEqual(await waited.waiting, { outcome: 'reused' });
});

test('a start that waited while another one was at work has the larger fence', async () => {
  const step = aStep();
  await release(store, { step, start: await store.start(step) });
  const { between, waited } = await database.transaction(async (tx) => {
    await tx.query('SELECT FROM once WHERE scope = $1 FOR UPDATE', [step.scope]);
    const waiting = store.start(step);
    await eventually(isAnyBlocked);
    const atWork = openPostgresOnce(tx);
    return {
      between: await release(atWork, { step, start: await atWork.start(step) }),
      waited: { waiting },
    };
  });
  const after = await release(store, { step, start: await waited.waiting });
  assert.ok(after > between, `${after} after ${between}`);
});

/** Gives a start up, and its fence. */
async function release(
  on: OnceStore,
  { step, start }: { step: ReturnType<typeof aStep>; start: StartOutcome },
): Promise<bigint> {
  assert.ok(start.outcome === 'started');
  const owner = { ...step, token: start.token };
  assert.equal(await on.finish(owner, { state: 'released' }), 'finished');
  return start.fence;
}

/** Whether a statement in this database waits for another one's lock. */
async function isAnyBlocked(): Promise<boolean> {
  const sql = `SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'`;
  return (await database.query(sql)).length > 0;
}
