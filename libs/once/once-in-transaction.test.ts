import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import type { Database, Queryable } from '@triplock/postgres';
import { eventually } from '@triplock/testing';
import { EffectFailedError, once, resultBytesMax } from './once.ts';
import { onceInTransaction } from './once-in-transaction.ts';
import { createOnceDatabase } from './test/once-database.ts';
import { aStep, hourMs } from './test/once-under-test.ts';

const { ageKey, database, store } = await createOnceDatabase({ after });

type Step = ReturnType<typeof aStep>;

/** An effect in the database: a row that says what was done. */
const writing = (step: Step, what: string) => async (tx: Queryable) => {
  await tx.query('INSERT INTO effects VALUES ($1, $2)', [step.scope, what]);
  return { what };
};

async function effectsOf({ scope }: Step): Promise<string[]> {
  const sql = 'SELECT what FROM effects WHERE scope = $1 ORDER BY what';
  return (await database.query<{ what: string }>(sql, [scope])).map(({ what }) => what);
}

describe('an effect in the database', () => {
  it('happens once, and its result is replayed', async () => {
    const step = aStep();
    const result = { what: 'first' };
    const first = await onceInTransaction(database, step, writing(step, 'first'));
    assert.deepEqual(first, { outcome: 'done', result });
    const second = await onceInTransaction(database, step, writing(step, 'second'));
    assert.deepEqual(second, { outcome: 'replayed', result });
    assert.deepEqual(await effectsOf(step), ['first']);
  });

  it('a second one waits for the first and replays it', async () => {
    const step = aStep();
    const [gate, begun] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const first = onceInTransaction(database, step, async (tx) => {
      begun.resolve();
      await gate.promise;
      return writing(step, 'first')(tx);
    });
    await begun.promise;
    const second = onceInTransaction(database, step, writing(step, 'second'));
    await eventually(() => isWaiting());
    gate.resolve();
    assert.equal((await first).outcome, 'done');
    assert.deepEqual(await second, { outcome: 'replayed', result: { what: 'first' } });
    assert.deepEqual(await effectsOf(step), ['first']);
  });

  it('of two for a key that is there and free, the second waits for the first', async () => {
    const step = aStep();
    await assert.rejects(once(store, step, () => Promise.reject(new Error('a time-out'))));
    const [gate, begun] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const first = onceInTransaction(database, step, async (tx) => {
      begun.resolve();
      await gate.promise;
      return writing(step, 'first')(tx);
    });
    await begun.promise;
    const second = onceInTransaction(database, step, writing(step, 'second'));
    await eventually(() => isWaiting());
    gate.resolve();
    assert.equal((await first).outcome, 'done');
    assert.equal((await second).outcome, 'replayed');
    assert.deepEqual(await effectsOf(step), ['first']);
  });

  it('what fails on the way leaves neither effect nor key, and a waiting one does it', async () => {
    const step = aStep();
    const [gate, begun] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const passing = new Error('a crash');
    const first = onceInTransaction(database, step, async (tx) => {
      await writing(step, 'first')(tx);
      begun.resolve();
      await gate.promise;
      throw passing;
    });
    const failed = assert.rejects(first, passing);
    await begun.promise;
    const second = onceInTransaction(database, step, writing(step, 'second'));
    await eventually(() => isWaiting());
    gate.resolve();
    await failed;
    assert.equal((await second).outcome, 'done');
    assert.deepEqual(await effectsOf(step), ['second']);
  });

  it('a final failure undoes what the effect wrote, and is thrown alike to every repeat', async () => {
    const step = aStep();
    let runs = 0;
    const failing = async (tx: Queryable) => {
      runs += 1;
      await writing(step, 'half')(tx);
      throw new EffectFailedError('no_such_order', 'there is no such order');
    };
    for (let repeat = 0; repeat < 2; repeat += 1) {
      const refused = { code: 'no_such_order', message: 'there is no such order' };
      await assert.rejects(onceInTransaction(database, step, failing), refused);
    }
    assert.equal(runs, 1);
    assert.deepEqual(await effectsOf(step), []);
  });

  it('a failure of the database itself is not kept', async () => {
    const step = aStep();
    const broken = (tx: Queryable) => tx.query('SELECT 1 / 0');
    await assert.rejects(onceInTransaction(database, step, broken), { code: '22012' });
    const again = await onceInTransaction(database, step, writing(step, 'again'));
    assert.equal(again.outcome, 'done');
  });

  it('a key that belongs to another request is refused; an expired one is free', async () => {
    const step = aStep();
    const other = { ...step, fingerprint: 'another request' };
    await onceInTransaction(database, step, writing(step, 'first'));
    const reused = await onceInTransaction(database, other, writing(step, 'other'));
    assert.deepEqual(reused, { outcome: 'reused' });
    await ageKey(step, 25 * hourMs);
    const free = await onceInTransaction(database, other, writing(step, 'other'));
    assert.equal(free.outcome, 'done');
    const repeat = await onceInTransaction(database, other, writing(step, 'third'));
    assert.equal(repeat.outcome, 'replayed');
  });

  it('a key that others had before it is kept for no longer than from its first start', async () => {
    const step = aStep();
    const other = { ...step, fingerprint: 'another request' };
    await assert.rejects(once(store, step, () => Promise.reject(new Error('a time-out'))));
    await ageKey(step, 13 * hourMs);
    await onceInTransaction(database, step, writing(step, 'first'));
    const reused = await onceInTransaction(database, other, writing(step, 'other'));
    assert.deepEqual(reused, { outcome: 'reused' });
    await ageKey(step, 13 * hourMs);
    const free = await onceInTransaction(database, other, writing(step, 'other'));
    assert.equal(free.outcome, 'done');
  });

  it('one that a reaper takes out between its two looks is made anew', async () => {
    const step = aStep();
    await onceInTransaction(database, step, writing(step, 'first'));
    await ageKey(step, 26 * hourMs);
    let looks = 0;
    const reaped: Database = {
      ...database,
      transaction: (work) =>
        database.transaction((tx) => {
          const query: Queryable['query'] = async (...asked) => {
            if ((looks += 1) === 2) await store.reap({ rowsMax: 9 });
            return tx.query(...asked);
          };
          return work({ ...tx, query });
        }),
    };
    const again = await onceInTransaction(reaped, step, writing(step, 'again'));
    assert.equal(again.outcome, 'done');
    assert.deepEqual(await effectsOf(step), ['again', 'first']);
  });

  it('an effect with a result that cannot be kept is undone, and fails for good', async () => {
    const step = aStep();
    for (let repeat = 0; repeat < 2; repeat += 1) {
      const long = onceInTransaction(database, step, async (tx) => {
        await writing(step, 'long')(tx);
        return 'x'.repeat(resultBytesMax);
      });
      await assert.rejects(long, { code: 'result_too_long' });
    }
    assert.deepEqual(await effectsOf(step), []);
  });

  it('one that was started outside of a transaction is waited for by its lease', async () => {
    const step = aStep();
    await once(store, step, async () => {
      const inside = await onceInTransaction(database, step, writing(step, 'inside'));
      assert.ok(inside.outcome === 'in-flight');
      const lasts = inside.leaseLeftMs > step.leaseMs / 2 && inside.leaseLeftMs <= step.leaseMs;
      assert.ok(lasts, `${inside.leaseLeftMs} ms left`);
      await ageKey(step, 2 * step.leaseMs);
      const after = await onceInTransaction(database, step, writing(step, 'after the lease'));
      assert.equal(after.outcome, 'done');
    }).then(({ outcome }) => assert.equal(outcome, 'taken-over'));
    assert.deepEqual(await effectsOf(step), ['after the lease']);
  });
});

/** Whether some transaction of this database waits for another one. */
async function isWaiting(): Promise<boolean> {
  const rows = await database.query(
    `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
  );
  return rows.length > 0;
}
