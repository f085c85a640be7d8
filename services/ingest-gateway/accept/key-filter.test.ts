import assert from 'node:assert/strict';
import { it } from 'node:test';
import { aPayment } from '@triplock/testing';
import { openKeyFilter } from './key-filter.ts';

const ids = (count: number) => Array.from({ length: count }, () => aPayment().txnId);

it('a filter has every id that was added, and hardly any other', () => {
  const filter = openKeyFilter();
  const [added, others] = [ids(20_000), ids(20_000)];
  assert.ok(!others.some((id) => filter.mayHave(id)));
  for (const id of added) filter.add(id);
  assert.ok(added.every((id) => filter.mayHave(id)));
  // By its size one in 10¹⁴.
  assert.equal(others.filter((id) => filter.mayHave(id)).length, 0);
});

it('ids that differ in one digit are told from each other, but for what all have and the last', () => {
  const id = '37585521-60c9-8d90-a37f-2e1b8a7081e6' as ReturnType<typeof ids>[number];
  const filter = openKeyFilter();
  filter.add(id);
  const isTold = [...id].map((digit, at) => {
    if (digit === '-') return false;
    const other = digit === '1' ? '2' : '1';
    return !filter.mayHave((id.slice(0, at) + other + id.slice(at + 1)) as typeof id);
  });
  const untold = isTold.flatMap((told, at) => (told ? [] : [at]));
  // The hyphens, the version, the variant, and the digit that no bit needs.
  assert.deepEqual(untold, [7, 8, 13, 14, 18, 19, 23, 35]);
});
