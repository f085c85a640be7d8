import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSince } from './since.ts';

const now = new Date('2026-11-21T12:00:00Z');

test('a time or a day that has begun is taken', () => {
  assert.equal(+parseSince('2026-11-21T10:00:00+02:00', now), Date.UTC(2026, 10, 21, 8));
  assert.equal(+parseSince('2026-11-20', now), Date.UTC(2026, 10, 20));
});

test('what is no time, has no zone or lies ahead is refused', () => {
  for (const text of [undefined, '', 'yesterday', '2026-13-01', '2026-11-20T10:00:00', '1']) {
    assert.throws(() => parseSince(text, now), /--since takes a time/);
  }
  assert.throws(() => parseSince('2026-11-22', now), /lies ahead/);
});
