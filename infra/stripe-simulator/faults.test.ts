import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFaults, createRandom, drawLatencyMs } from './faults.ts';

const strikes = (seed: number, others = 0) => {
  const faults = createFaults(seed);
  for (let count = 0; count < others; count += 1) faults.add({ fault: 'slow', operation: 'none' });
  faults.add({ fault: 'error', probability: 0.3 });
  return Array.from({ length: 200 }, () => faults.strike('refunds.create') !== undefined);
};

test('the same seed makes the same faults strike, another one others', () => {
  assert.deepEqual(strikes(7), strikes(7));
  assert.notDeepEqual(strikes(7), strikes(8));
  const hits = strikes(7).filter(Boolean).length;
  assert.ok(hits > 30 && hits < 90, `${hits} of 200 at 0.3`);
});

test('a fault strikes its operation only, as often as it may, and counts', () => {
  const faults = createFaults(1);
  const { id } = faults.add({ fault: 'error', operation: 'refunds.create', count: 2 });
  const struck = ['refunds.create', 'refunds.list', 'refunds.create', 'refunds.create'].map(
    (name) => faults.strike(name)?.fault,
  );
  assert.deepEqual(struck, ['error', undefined, 'error', undefined]);
  assert.partialDeepStrictEqual(faults.list(), [{ id, hits: 2, seen: 2 }]);
  assert.equal(faults.remove(id), 'removed');
  assert.equal(faults.remove(id), 'unknown');
});

test('of several faults one strikes a request, the first whose chance comes up', () => {
  const faults = createFaults(1);
  faults.add({ fault: 'error', probability: 0 });
  faults.add({ fault: 'slow' });
  faults.add({ fault: 'reset' });
  assert.equal(faults.strike('refunds.list')?.fault, 'slow');
  assert.deepEqual(
    faults.list().map(({ hits }) => hits),
    [0, 1, 0],
  );
});

test('reseeding begins the chances again', () => {
  const faults = createFaults(1);
  faults.add({ fault: 'error', probability: 0.5 });
  const draw = () => Array.from({ length: 50 }, () => faults.strike('refunds.list') !== undefined);
  faults.reseed(9);
  const first = draw();
  faults.reseed(9);
  assert.deepEqual(draw(), first);
});

test('latency has the median and the 99th percentile that it was given', () => {
  const random = createRandom(3);
  const draws = Array.from({ length: 20_000 }, () =>
    drawLatencyMs({ medianMs: 80, p99Ms: 900 }, random),
  );
  draws.sort((a, b) => a - b);
  const near = (actual: number, wanted: number) => Math.abs(actual - wanted) < wanted * 0.1;
  assert.ok(near(draws[10_000]!, 80), `median ${draws[10_000]}`);
  assert.ok(near(draws[19_800]!, 900), `p99 ${draws[19_800]}`);
  assert.equal(drawLatencyMs({ medianMs: 0, p99Ms: 0 }, random), 0);
});
