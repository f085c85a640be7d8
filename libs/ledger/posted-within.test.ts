import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TxnId } from '@triplock/payments';
import { inSlices } from './posted-within.ts';

const now = new Date('2026-03-04T05:06:07.089Z');
const hourMs = 3_600_000;

/** Reads a ledger that has rows at these times, back from now, as a store does. */
async function readAll(agoMs: readonly number[], ms: number) {
  const rows = agoMs.map((ago, n) => ({ id: `id-${n}` as TxnId, at: +now - ago }));
  const [ids, parts]: [TxnId[], number[]] = [[], []];
  let asked = 0;
  for await (const portion of inSlices({ now, ms }, async ({ from, before, limit }) => {
    asked += 1;
    return rows
      .filter(({ at }) => at >= +from && at < +before)
      .slice(0, limit)
      .map(({ id }) => id);
  })) {
    ids.push(...portion.ids);
    parts.push(portion.part);
  }
  assert.deepEqual(
    parts,
    parts.toSorted((a, b) => a - b),
  );
  assert.equal(parts.at(-1), 1);
  return { ids, asked };
}

test('each row of the time is read once, spread or all at one time, and those of a clock that is ahead', async () => {
  const spread = Array.from({ length: 90_000 }, (_, n) => 25 * hourMs - 1_000 * n);
  const burst = Array.from({ length: 50_000 }, (_, n) => 3 * hourMs + (n % 5_000));
  const atOnce = Array.from({ length: 30_000 }, () => 7 * hourMs);
  const ahead = Array.from({ length: 100 }, (_, n) => -hourMs * n);
  const times = [...spread, ...burst, ...atOnce, ...ahead];
  const { ids, asked } = await readAll([...times, 26 * hourMs], 25 * hourMs);
  assert.equal(ids.length, times.length);
  assert.equal(new Set(ids).size, times.length);
  assert.ok(asked < 150, `${asked} slices`);
});

test('an empty day is a few slices', async () => {
  const { ids, asked } = await readAll([], 25 * hourMs);
  assert.deepEqual(ids, []);
  assert.ok(asked < 15, `${asked} slices`);
});
