import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { preferredWaitSeconds } from './prefer-wait.ts';

const honoured: readonly [header: string | string[], seconds: number][] = [
  ['wait=10', 10],
  ['wait=0', 0],
  ['wait=30', 30],
  ['wait=010', 10],
  ['WAIT = "5"', 5],
  ['respond-async, wait=5', 5],
  ['return=minimal; foo="a, wait=9", wait=7 ; x=y', 7],
  ['wait=5;', 5],
  ['wait=5, wait=9', 5],
  ['foo="\\", wait=9", wait=3', 3],
  [['respond-async', 'wait=4'], 4],
];

for (const [header, seconds] of honoured) {
  test(`Prefer: ${String(header)} waits ${seconds} s`, () => {
    assert.equal(preferredWaitSeconds(header), seconds);
  });
}

const ignored = [
  undefined,
  '',
  'wait',
  'wait=',
  'wait=31',
  'wait=1e1',
  'wait=-1',
  'wait=1.5',
  'wait=ten',
  'wait=99999999999999999999',
  'wait=5 seconds',
  'wait="5',
  'waiting=5',
  'wait-longer=5',
  'x=wait=5',
  'return="wait=5"',
  'wait=99, wait=5',
];

for (const header of ignored) {
  test(`Prefer: ${header ?? 'absent'} waits not at all`, () => {
    assert.equal(preferredWaitSeconds(header), undefined);
  });
}

test('whatever the header says, the wait is between 0 and 30 s or none', () => {
  const pieces = fc.constantFrom('wait', '=', '"', '\\', ',', ';', '5', '31', ' ', 'x');
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 12 }), (header) => {
      const seconds = preferredWaitSeconds(header.join(''));
      assert.ok(seconds === undefined || (seconds >= 0 && seconds <= 30));
    }),
    { numRuns: 2_000 },
  );
});
