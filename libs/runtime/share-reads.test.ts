import assert from 'node:assert/strict';
import { EventEmitter, on } from 'node:events';
import { describe, it } from 'node:test';
import { shareReads } from './share-reads.ts';

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
