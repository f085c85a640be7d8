import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { bisectBatch } from './bisect-batch.ts';

class BadItemError extends Error {}

/** Runs batches of numbers, of which some are bad, and counts the runs. */
function numbers(bad: ReadonlySet<number>) {
  const done: number[] = [];
  const counted = { runs: 0 };
  const run = async (items: readonly number[]) => {
    counted.runs += 1;
    if (items.some((item) => bad.has(item))) throw new BadItemError();
    done.push(...items);
    return items.map((item) => `did ${item}`);
  };
  const blame = (error: unknown) => (error instanceof BadItemError ? 'bad' : undefined);
  return { attempt: { run, blame }, done, counted };
}

test('whichever items are bad, every other is done once and in order', async () => {
  const batch = fc.uniqueArray(fc.nat(200), { minLength: 1, maxLength: 64 });
  await fc.assert(
    fc.asyncProperty(batch, fc.array(fc.nat(200)), async (items, some) => {
      const bad = new Set(some);
      const { attempt, done } = numbers(bad);
      const results = await bisectBatch(items, attempt);
      assert.deepEqual(
        results,
        items.map((item) => (bad.has(item) ? 'bad' : `did ${item}`)),
      );
      assert.deepEqual(
        done,
        items.filter((item) => !bad.has(item)),
      );
    }),
  );
});

test('one bad item among 500 costs at most 19 runs, none costs one', async () => {
  const items = Array.from({ length: 500 }, (_, n) => n);
  for (const place of [0, 249, 250, 499]) {
    const { attempt, counted } = numbers(new Set([place]));
    await bisectBatch(items, attempt);
    assert.ok(counted.runs <= 19, `${counted.runs} runs`);
  }
  const { attempt, counted } = numbers(new Set());
  await bisectBatch(items, attempt);
  assert.equal(counted.runs, 1);
});

test('an error that is no item’s fault ends it at once', async () => {
  let runs = 0;
  const run = async () => {
    runs += 1;
    throw new Error('the database is away');
  };
  await assert.rejects(bisectBatch([1, 2, 3], { run, blame: () => undefined }), /is away/);
  assert.equal(runs, 1);
});
