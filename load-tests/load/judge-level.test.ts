import assert from 'node:assert/strict';
import { test } from 'node:test';
import { judgeLevel, type LevelEvidence } from './judge-level.ts';
import type { Reading } from './watch-system.ts';

/** A reading every two seconds at 10 a second; `behind` is how many wait at a share of the load. */
function aRun(asked: {
  seconds: number;
  behind?: (share: number) => number;
  rss?: (share: number) => number;
}): Omit<LevelEvidence, 'level'> {
  const { seconds, behind = () => 0, rss = () => 100 } = asked;
  const readings = Array.from({ length: seconds / 2 + 20 }, (_, n): Reading => {
    const second = n * 2;
    const share = second / seconds;
    const accepted = 1_000 + Math.min(second, seconds) * 10;
    const delivered = share > 1 ? accepted : accepted - behind(share);
    const stages = { accepted, posted: delivered, published: delivered, delivered };
    return { second, ...stages, cpuSeconds: {}, rssMiB: { 'ledger-worker': rss(share) } };
  });
  return { rate: 10, seconds, readings };
}

const failing = (evidence: LevelEvidence) =>
  judgeLevel(evidence)
    .filter(({ holds }) => !holds)
    .map(({ what }) => what);

test('a burst that is worked off before the end holds, one that is not does not', () => {
  const burst = (share: number) => (share > 0.3 && share < 0.8 ? 500 : 5);
  assert.deepEqual(failing({ level: 'returns', ...aRun({ seconds: 60, behind: burst }) }), []);
  const left = (share: number) => (share > 0.3 ? 500 : 5);
  assert.deepEqual(failing({ level: 'returns', ...aRun({ seconds: 60, behind: left }) }), [
    'waiting at the end of the load',
  ]);
});

test('a lag that grows all the time does not stay', () => {
  const growing = (share: number) => share * 200;
  assert.deepEqual(failing({ level: 'stays', ...aRun({ seconds: 60, behind: growing }) }), [
    'waiting at the end of the load',
  ]);
});

test('memory is judged where a run is long enough to tell a leak from a start', () => {
  const leak = (share: number) => 100 + share * 100;
  assert.deepEqual(failing({ level: 'stays', ...aRun({ seconds: 1_800, rss: leak }) }), [
    'MiB of ledger-worker at the end',
  ]);
  assert.deepEqual(failing({ level: 'stays', ...aRun({ seconds: 1_800 }) }), []);
  assert.deepEqual(failing({ level: 'stays', ...aRun({ seconds: 60, rss: leak }) }), []);
});

test('nothing is said of a scenario without a level, and of a load of a moment', () => {
  assert.deepEqual(judgeLevel({ level: undefined, ...aRun({ seconds: 60 }) }), []);
  assert.deepEqual(judgeLevel({ level: 'stays', rate: 10, seconds: 1, readings: [] }), []);
});
