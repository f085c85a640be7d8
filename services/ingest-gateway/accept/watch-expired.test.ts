import assert from 'node:assert/strict';
import { test } from 'node:test';
import { watchExpired } from './watch-expired.ts';

test('the ledger is taken at its word once it is less than an hour late, and for a while after', async () => {
  const hourAgo = Date.now() - 3_600_000;
  const position = { young: 3n, committed: 2n };
  const asked: Date[] = [];
  const at = (offset: bigint) => new Map([[0, offset]]);
  const expired = watchExpired({
    since: async (time) => (asked.push(time), at(position.young)),
    committed: async () => at(position.committed),
  });
  assert.equal(await expired.arePosted(), false);
  position.committed = 3n;
  assert.equal(await expired.arePosted(), true);
  position.young = 9n; // What is an hour old now has a claim that lives for most of a day.
  assert.equal(await expired.arePosted(), true);
  assert.equal(asked.length, 2);
  for (const time of asked) assert.ok(Math.abs(time.getTime() - hourAgo) < 60_000);
});
