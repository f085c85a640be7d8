import assert from 'node:assert/strict';
import { test } from 'node:test';
import { figuresOf, spread } from './cost-sheet.ts';
import { aRepetition } from '../test/repetition.ts';

test('the median stands between the two in the middle, and order does not matter', () => {
  assert.deepEqual(spread([9, 1, 5]), { min: 1, median: 5, max: 9 });
  assert.deepEqual(spread([4, 1, 2, 9]), { min: 1, median: 3, max: 9 });
  assert.deepEqual(spread([7]), { min: 7, median: 7, max: 7 });
});

test('a payment costs what all services used until all was drained', () => {
  const figures = figuresOf([aRepetition({ accepted: 1_000, serviceMicros: 50_000 })]);
  assert.equal(figures.services.auditor.cpuMicros.median, 50);
  assert.equal(figures.cpuMicros.published.median, 150);
  assert.equal(figures.cpuMicros.together.median, 300);
});

test('the ratio is to the empty POST of just before and just after', () => {
  const fast = aRepetition({ accepted: 1_000, serviceMicros: 50_000, emptyMicros: [40, 60] });
  const slow = aRepetition({ accepted: 1_000, serviceMicros: 90_000, emptyMicros: [60, 120] });
  const { ratio, emptyPost } = figuresOf([fast, slow]);
  assert.deepEqual(ratio.published, { min: 3, median: 3, max: 3 });
  assert.deepEqual(ratio.together, { min: 6, median: 6, max: 6 });
  assert.deepEqual(emptyPost.cpuMicros, { min: 50, median: 70, max: 90 });
});

test('rates are of accepted payments, each by the time that its last step took', () => {
  const { acceptedPerSecond, publishedPerSecond, deliveredPerSecond } = figuresOf([
    aRepetition({ accepted: 1_000, tookMs: 500, publishedMs: 1_000, deliveredMs: 4_000 }),
  ]);
  assert.equal(acceptedPerSecond.median, 2_000);
  assert.equal(publishedPerSecond.median, 1_000);
  assert.equal(deliveredPerSecond.median, 250);
});

test('a run that accepted nothing gives no figures instead of infinite ones', () => {
  assert.throws(() => figuresOf([aRepetition({ accepted: 0 })]), /without an accepted payment/);
  assert.throws(() => figuresOf([]), /without an accepted payment/);
});

test('a replay is set against a fresh payment, and servers are counted beside the services', () => {
  const { replay, parts } = figuresOf([aRepetition({ accepted: 100, serviceMicros: 10_000 })]);
  assert.equal(replay.cpuMicros.median, 50);
  assert.equal(replay.ofFresh.median, 0.5);
  assert.deepEqual(
    Object.values(parts!).map(({ median }) => median),
    [10, 20, 30, 40],
  );
});

test('servers that run elsewhere have no figures', () => {
  const here = aRepetition({});
  const { partMicros: _, ...elsewhere } = here.system;
  assert.equal(figuresOf([here, { ...here, system: elsewhere }]).parts, undefined);
});
