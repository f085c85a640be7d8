import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { gather } from './gather.ts';

const apartMs = 25;
const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

/** A gatherer on a clock of the test's, and its batches, which the test ends. */
function aGatherer(t: TestContext, itemsMax: number) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const batches: number[][] = [];
  let underWay = Promise.withResolvers<string[]>();
  let given = 0;
  const handle = gather(
    (items: readonly number[]) => {
      batches.push([...items]);
      underWay = Promise.withResolvers();
      return underWay.promise;
    },
    { apartMs, itemsMax },
  );
  const settle = async () => {
    for (let turn = 0; turn < 5; turn += 1) await nextTurn();
  };
  return {
    give: (count: number) => Array.from({ length: count }, () => handle((given += 1))),
    sizes: async () => {
      await settle();
      return batches.map(({ length }) => length);
    },
    end: () => underWay.resolve(batches.at(-1)!.map((item) => `item ${item}`)),
    fail: (error: Error) => underWay.reject(error),
    pass: (ms: number) => t.mock.timers.tick(ms),
  };
}

test('after a calm a batch begins without a wait, and what comes meanwhile is the next', async (t) => {
  const { give, sizes, end, pass } = aGatherer(t, 4);
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
  const { give, sizes, end, pass } = aGatherer(t, 100);
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

test('a batch that fails is told to each of its items, and to no other', async (t) => {
  const { give, sizes, end, fail, pass } = aGatherer(t, 100);
  const failed = give(2);
  await sizes();
  const others = give(1);
  pass(apartMs);
  fail(new Error('the database is away'));
  for (const each of failed) await assert.rejects(each, /away/);
  assert.deepEqual(await sizes(), [2, 1]);
  end();
  assert.deepEqual(await Promise.all(others), ['item 3']);
});
