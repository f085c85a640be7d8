import assert from 'node:assert/strict';
import { EventEmitter, on } from 'node:events';
import { describe, it, test, type TestContext } from 'node:test';
import fc from 'fast-check';
import {
  inBatches,
  openBatches,
  openSlots,
  shareReads,
  TooManyWaitingError,
  type BatchLimits,
} from './concurrency.ts';

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

test('no more slots are taken than there are, whatever is taken and released', () => {
  const step = fc.record({ wanted: fc.integer({ min: -1, max: 5 }), released: fc.nat(5) });
  fc.assert(
    fc.property(fc.nat(8), fc.array(step), (slotsMax, steps) => {
      const slots = openSlots(slotsMax);
      let taken = 0;
      for (const { wanted, released } of steps) {
        taken += slots.takeFree(wanted);
        for (let n = 0; n < Math.min(released, taken); n += 1) slots.release();
        taken -= Math.min(released, taken);
        assert.ok(taken <= slotsMax);
        assert.equal(slots.free(), slotsMax - taken);
      }
    }),
  );
});

test('who waits gets the slot that is released, in order and before anyone who comes later', async () => {
  const slots = openSlots(1);
  const granted: number[] = [];
  for (const n of [0, 1, 2]) void slots.take().then(() => granted.push(n));
  await settled();
  assert.deepEqual(granted, [0]);
  assert.deepEqual([slots.waiting(), slots.waiting(''), slots.waiting('other')], [2, 2, 0]);
  slots.release();
  assert.equal(slots.takeFree(1), 0);
  slots.release();
  await settled();
  assert.deepEqual(granted, [0, 1, 2]);
  assert.equal(slots.waiting(), 0);
  slots.release();
  assert.equal(slots.free(), 1);
});

test('callers get slots in turn, however many of one wait', async () => {
  const slots = openSlots(1);
  slots.takeFree(1);
  const granted: string[] = [];
  for (const caller of ['batch', 'batch', 'batch', 'resolver', 'resolver']) {
    void slots.take(caller).then(() => granted.push(caller));
  }
  for (let n = 0; n < 5; n += 1) slots.release();
  await settled();
  assert.deepEqual(granted, ['batch', 'resolver', 'batch', 'resolver', 'batch']);
});

/** Reads that begin and end under the test's eyes. */
function heldReads() {
  const began = new EventEmitter();
  const begins = on(began, 'read');
  const read = shareReads((_key: string) => {
    const held = Promise.withResolvers<string>();
    began.emit('read', held);
    return held.promise;
  });
  const nextRead = async () => (await begins.next()).value![0] as PromiseWithResolvers<string>;
  return { read, nextRead };
}

describe('reads of one thing by many', () => {
  it('are two for a thousand at once: the first, and one for all who came after it', async () => {
    const { read, nextRead } = heldReads();
    const [first, ...later] = Array.from({ length: 1_000 }, () => read('a'));
    (await nextRead()).resolve('old');
    assert.equal(await first, 'old');
    (await nextRead()).resolve('new');
    // A third read would hang here.
    assert.deepEqual([...new Set(await Promise.all(later))], ['new']);
  });

  it('never answer with what was asked for before the question', async () => {
    const { read, nextRead } = heldReads();
    const first = read('a');
    const second = read('a');
    (await nextRead()).resolve('1');
    assert.equal(await first, '1');
    const underWay = await nextRead();
    const third = read('a');
    underWay.resolve('2');
    assert.equal(await second, '2');
    (await nextRead()).resolve('3');
    assert.equal(await third, '3');
  });

  it('do not wait for a read of something else', async () => {
    const { read, nextRead } = heldReads();
    const stuck = read('a');
    const stuckRead = await nextRead();
    const free = read('b');
    (await nextRead()).resolve('b');
    assert.equal(await free, 'b');
    stuckRead.resolve('a');
    assert.equal(await stuck, 'a');
  });

  it('fail together, and are asked for anew by those who came later', async () => {
    const { read, nextRead } = heldReads();
    const first = read('a');
    const later = [read('a'), read('a')];
    (await nextRead()).reject(new Error('away'));
    await assert.rejects(first, /away/);
    (await nextRead()).resolve('back');
    assert.deepEqual(await Promise.all(later), ['back', 'back']);
  });

  it('begin some milliseconds apart where that is asked for', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    let reads = 0;
    const read = shareReads(async () => (reads += 1), { apartMs: 100 });
    assert.equal(await read(), 1);
    const later = [read(), read()];
    t.mock.timers.tick(99);
    await new Promise(setImmediate);
    assert.equal(reads, 1);
    t.mock.timers.tick(1);
    assert.deepEqual(await Promise.all(later), [2, 2]);
  });
});
