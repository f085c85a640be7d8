import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { backoffMs, DeadlineError, runLoop, withDeadline, type Pass } from './loop.ts';
import type { Logger } from './logger.ts';

const hourMs = 3_600_000;
const quiet = { warn: () => undefined } as unknown as Logger;

/** A loop over the given passes that notes its warnings; `started[n]` resolves with pass n. */
function loopOver(...passes: Pass[]) {
  const warnings: object[] = [];
  const logger = { warn: (about: object) => void warnings.push(about) } as unknown as Logger;
  const started = passes.map(() => Promise.withResolvers<void>());
  let count = 0;
  const pass: Pass = () => {
    const at = count++;
    started[at]?.resolve();
    return passes[at]?.() ?? Promise.resolve(0);
  };
  const loop = runLoop(pass, { name: 'test', idleMs: hourMs, logger });
  return { loop, warnings, started: started.map(({ promise }) => promise), passed: () => count };
}

test('a loop goes on at once while there is work, and rests when there is none', async () => {
  const { loop, started, passed } = loopOver(
    async () => 5,
    async () => 1,
    async () => 0,
  );
  await started[2];
  await loop.stop();
  assert.equal(passed(), 3);
});

for (const [what, limits, found] of [
  ['that found work', { apartMs: 100 }, () => 1],
  ['that found nothing', { wokenApartMs: 100 }, () => 0],
  ['that failed', { wokenApartMs: 100 }, () => Promise.reject(new Error('the database is away'))],
] as const) {
  test(`passes ${what} begin apart, however often they are woken`, async () => {
    const startedAt: number[] = [];
    const pass = async () => (startedAt.push(performance.now()), found());
    const loop = runLoop(pass, { name: 'test', idleMs: hourMs, ...limits, logger: quiet });
    const waking = setInterval(loop.wake, 1);
    while (startedAt.length < 4) await new Promise(setImmediate);
    clearInterval(waking);
    await loop.stop();
    // Woken every millisecond, none would have come so late; a busy machine may count one early.
    for (const n of [1, 2, 3]) assert.ok(startedAt[n]! - startedAt[n - 1]! > 50, `pass ${n}`);
  });
}

test('a pass that has rested for long enough is woken at once', async () => {
  const { promise: begun, resolve } = Promise.withResolvers<void>();
  let passes = 0;
  const pass = async () => (++passes === 2 && resolve(), 0);
  const limits = { idleMs: hourMs, apartMs: hourMs, wokenApartMs: 1 };
  const loop = runLoop(pass, { name: 'test', ...limits, logger: quiet });
  const waking = setInterval(loop.wake, 1);
  await begun;
  clearInterval(waking);
  await loop.stop();
});

test('a pass that throws is logged and tried again', async () => {
  const error = new Error('the database is away');
  const { loop, started, warnings } = loopOver(
    () => Promise.reject(error),
    () => Promise.reject(error),
    async () => 0,
  );
  await started[2];
  await loop.stop();
  assert.deepEqual(warnings, [
    { err: error, loop: 'test', failures: 0 },
    { err: error, loop: 'test', failures: 1 },
  ]);
});

test('stopping lets the pass under way finish and begins no other', async () => {
  const work = Promise.withResolvers<number>();
  const { loop, started, passed } = loopOver(() => work.promise);
  await started[0];
  let hasStopped = false;
  const stopped = loop.stop().then(() => (hasStopped = true));
  await new Promise(setImmediate);
  assert.equal(hasStopped, false);
  work.resolve(1);
  await stopped;
  assert.equal(passed(), 1);
});

test('waking ends a rest, also the one that is to come', async () => {
  const work = Promise.withResolvers<number>();
  const { loop, started, passed } = loopOver(
    () => work.promise,
    async () => 0,
    async () => 0,
  );
  await started[0];
  loop.wake();
  work.resolve(0);
  await started[1];
  await new Promise(setImmediate);
  loop.wake();
  await started[2];
  await loop.stop();
  assert.equal(passed(), 3);
});

test('a rest may grow with the passes that found nothing, and is short again after one that did', async () => {
  const rests: number[] = [];
  const found = [1, 0, 0, 0, 1, 0];
  const over = Promise.withResolvers<void>();
  const idleMs = (before: number) => (rests.push(before), 0);
  const pass = async () => found.shift() ?? (over.resolve(), 1);
  const loop = runLoop(pass, { name: 'test', idleMs, apartMs: 1, logger: quiet });
  await over.promise;
  await loop.stop();
  assert.deepEqual(rests, [0, 1, 2, 0]);
});

test('a pause doubles from attempt to attempt, is jittered by half and never above its limit', () => {
  const limits = { firstMs: 100, maxMs: 5_000 };
  fc.assert(
    fc.property(fc.nat({ max: 1_000_000 }), (attempt) => {
      const whole = Math.min(5_000, 100 * 2 ** Math.min(attempt, 30));
      const pause = backoffMs(attempt, limits);
      assert.ok(pause >= whole / 2 && pause <= whole, String(pause));
    }),
  );
});

const limit = { ms: 20, what: 'the database' };

test("work that is done in time keeps its outcome, a failure's too", async () => {
  const error = new Error('refused');
  assert.equal(await withDeadline(Promise.resolve(7), limit), 7);
  await assert.rejects(withDeadline(Promise.reject(error), limit), error);
});

test('work that is late is given up, and what it comes to later disturbs nobody', async () => {
  const late = Promise.withResolvers<void>();
  await assert.rejects(withDeadline(late.promise, limit), (error) => {
    assert.ok(error instanceof DeadlineError);
    assert.equal(error.message, 'the database did not answer within 20 ms');
    return true;
  });
  late.reject(new Error('too late'));
  // An unhandled rejection would fail the test here.
  await new Promise(setImmediate);
});
