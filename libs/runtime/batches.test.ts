import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { inBatches, openBatches, TooManyWaitingError, type BatchLimits } from './batches.ts';

const apartMs = 25;

/** Lets everything happen that needs neither the end of a batch nor time. */
async function settled(): Promise<void> {
  for (let cycle = 0; cycle < 5; cycle += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** Numbers in batches on a clock of the test's, which also ends the batches. */
function numbersInBatches(t: TestContext, limits: BatchLimits<number>) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const batches: { items: readonly number[]; result: PromiseWithResolvers<string[]> }[] = [];
  const handle = inBatches((items: readonly number[]) => {
    const result = Promise.withResolvers<string[]>();
    batches.push({ items, result });
    return result.promise;
  }, limits);
  let given = 0;
  return {
    handle,
    give: (count: number) => Array.from({ length: count }, () => handle((given += 1))),
    sizes: async () => {
      await settled();
      return batches.map(({ items }) => items.length);
    },
    end: (nth = batches.length - 1) => {
      const { items, result } = batches[nth]!;
      result.resolve(items.map((item) => `item ${item}`));
    },
    fail: (error: Error) => batches.at(-1)!.result.reject(error),
    pass: (ms: number) => t.mock.timers.tick(ms),
  };
}

test('after a calm a batch begins without a wait, and what comes meanwhile is the next', async (t) => {
  const { give, sizes, end, pass } = numbersInBatches(t, { apartMs, itemsMax: 4 });
  const first = give(2);
  assert.deepEqual(await sizes(), [2]);
  void give(3);
  void give(3);
  pass(apartMs);
  assert.deepEqual(await sizes(), [2], 'one at a time');
  end();
  assert.deepEqual(await sizes(), [2, 4]);
  assert.deepEqual(await Promise.all(first), ['item 1', 'item 2']);
  pass(apartMs);
  end();
  assert.deepEqual(await sizes(), [2, 4, 2]);
  pass(apartMs);
  end();
  assert.deepEqual(await sizes(), [2, 4, 2]);
  void give(1);
  assert.deepEqual(await sizes(), [2, 4, 2, 1]);
});

test('a batch that was quick is followed by the next one only some milliseconds after its begin', async (t) => {
  const { give, sizes, end, pass } = numbersInBatches(t, { apartMs, itemsMax: 100 });
  void give(1);
  assert.deepEqual(await sizes(), [1]);
  end();
  void give(1);
  pass(apartMs - 1);
  void give(1);
  assert.deepEqual(await sizes(), [1]);
  pass(1);
  assert.deepEqual(await sizes(), [1, 2]);
});

test('a batch that is full waits for no time to pass', async (t) => {
  const { give, sizes, end } = numbersInBatches(t, { apartMs, itemsMax: 3 });
  void give(1);
  assert.deepEqual(await sizes(), [1]);
  end();
  void give(2);
  assert.deepEqual(await sizes(), [1]);
  void give(1);
  assert.deepEqual(await sizes(), [1, 3]);
});

test('a batch that fails fails for each of its items, and for no other', async (t) => {
  const { give, sizes, end, fail } = numbersInBatches(t, { itemsMax: 100 });
  const failed = give(2);
  await sizes();
  const others = give(1);
  fail(new Error('the database is away'));
  for (const each of failed) await assert.rejects(each, /away/);
  assert.deepEqual(await sizes(), [2, 1]);
  end();
  assert.deepEqual(await Promise.all(others), ['item 3']);
});

test('no batch counts more than its limit, no item is split, and no more are under way than allowed', async (t) => {
  const limits = { itemsMax: 10, countOf: (rows: number) => rows, batchesMax: 2 };
  const { handle, sizes, end } = numbersInBatches(t, limits);
  const results = [6, 4, 1, 12, 7].map((rows) => handle(rows));
  assert.deepEqual(await sizes(), [2, 1]);
  end(0);
  assert.deepEqual(await sizes(), [2, 1, 1]);
  end(2);
  assert.deepEqual(await sizes(), [2, 1, 1, 1]);
  end(1);
  end(3);
  assert.deepEqual(
    await Promise.all(results),
    [6, 4, 1, 12, 7].map((rows) => `item ${rows}`),
  );
});

test('those who wait behind a batch that hangs are bounded', async (t) => {
  const { give, handle, sizes } = numbersInBatches(t, { itemsMax: 5, waitingMax: 3 });
  void give(1);
  await sizes();
  void give(3);
  await assert.rejects(handle(0), TooManyWaitingError);
  assert.deepEqual(await sizes(), [1]);
});

test('what is added without a result is drained when all of it was handled', async () => {
  const sent: string[][] = [];
  const ids = openBatches<string>(async (batch) => void sent.push(batch), { itemsMax: 2 });
  await ids.drained();
  for (const id of ['a', 'b', 'c']) ids.add(id);
  await ids.drained();
  assert.deepEqual(sent, [['a', 'b'], ['c']]);
  ids.add('d');
  await ids.drained();
  assert.deepEqual(sent.at(-1), ['d']);
});
