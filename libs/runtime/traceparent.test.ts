import assert from 'node:assert/strict';
import { test } from 'node:test';
import { traceparentFrom } from './traceparent.ts';

const form = /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;
const given = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

test("a caller's trace goes on", () => {
  assert.equal(traceparentFrom(given), given);
});

const unusable = [
  undefined,
  '',
  'garbage',
  given.toUpperCase(),
  `${given}-extra`,
  given.replace('00-', 'ff-'),
  `00-${'0'.repeat(32)}-b7ad6b7169203331-01`,
  `00-0af7651916cd43dd8448eb211c80319c-${'0'.repeat(16)}-01`,
  `${given}\n`,
];

test('what cannot be used begins a new trace, another one each time', () => {
  const traces = unusable.map((each) => traceparentFrom(each));
  for (const trace of traces) assert.match(trace, form);
  assert.equal(new Set(traces).size, unusable.length);
});
