import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseIdempotencyKey, parseStrictJson, validatePaymentRequest } from '@triplock/contracts';
import { bodyOf, keyOf } from './load-generator.ts';

test('the gateway takes every request, and all of them are equally long', () => {
  const numbers = [0, 7, 99_999_999];
  const bodies = numbers.map((number) => bodyOf({ run: '0123456789ab', number }));
  assert.equal(new Set(bodies.map((body) => body.length)).size, 1);
  for (const body of bodies) {
    const json = parseStrictJson(Buffer.from(body));
    assert.equal(json.outcome, 'value');
    assert.equal(validatePaymentRequest(json.value).outcome, 'valid');
  }
});

test('no key is used twice, in a run or in another one', () => {
  const keys = ['0123456789ab', 'ba9876543210'].flatMap((run) =>
    [1, 2, 12].map((number) => keyOf({ run, number })),
  );
  assert.equal(new Set(keys).size, keys.length);
  for (const key of keys) assert.equal(parseIdempotencyKey([key]).outcome, 'key');
});
