import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JsonValue } from '@triplock/payments';
import fc from 'fast-check';
import { validateRefundRequest } from './refund.ts';

test('an empty object asks for all that is left', () => {
  assert.deepEqual(validateRefundRequest({}), { outcome: 'valid', details: {}, body: {} });
});

test('amount and reason are kept as they were sent, up to their limits', () => {
  for (const body of [
    { amount: 1 },
    { amount: 999_999_999_999, reason: '😀'.repeat(200) },
    { reason: '' },
  ]) {
    const { amount, ...rest } = body as { amount?: number; reason?: string };
    const details = { ...(amount === undefined ? {} : { amount: BigInt(amount) }), ...rest };
    assert.deepEqual(validateRefundRequest(body), { outcome: 'valid', details, body });
  }
});

const control = ['\0', '\u001f', '\u007f', '\u0080', '\u009f', '\t', '\r', '\n'];
const wrong: readonly [what: string, body: JsonValue | undefined, pointers: string[]][] = [
  ['no body', undefined, ['#']],
  ['null', null, ['#']],
  ['an array', [{}], ['#']],
  ['a number', 5, ['#']],
  ['an amount of 0', { amount: 0 }, ['#/amount']],
  ['a negative amount', { amount: -1 }, ['#/amount']],
  ['an amount above the limit', { amount: 1_000_000_000_000 }, ['#/amount']],
  ['a fraction', { amount: 1.5 }, ['#/amount']],
  ['an amount as text', { amount: '1' }, ['#/amount']],
  ['an amount of null', { amount: null }, ['#/amount']],
  ['201 characters of reason', { reason: 'r'.repeat(201) }, ['#/reason']],
  ['a reason of null', { reason: null }, ['#/reason']],
  ['a currency', { amount: 1, currency: 'EUR' }, ['#/currency']],
  ['a field that objects inherit', { constructor: 1 }, ['#/constructor']],
  ['all of them', { amount: 0, reason: 1, x: 1 }, ['#/amount', '#/reason', '#/x']],
  ...control.map((character): [string, JsonValue, string[]] => {
    const name = `U+${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
    return [`${name} in a reason`, { reason: character }, ['#/reason']];
  }),
];

for (const [what, body, pointers] of wrong) {
  test(`${what} is refused and pointed at`, () => {
    const result = validateRefundRequest(body);
    assert.deepEqual(
      result.outcome === 'invalid' && result.errors.map((error) => error.pointer),
      pointers,
    );
  });
}

test('a request without a body gets an answer that says how to ask for everything', () => {
  const result = validateRefundRequest(undefined);
  assert.match(
    result.outcome === 'invalid' ? result.errors[0]!.detail : '',
    /`\{\}` gives back all/,
  );
});

test('any JSON gets an answer, and what is refused is always pointed at', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (body) => {
      const result = validateRefundRequest(body);
      assert.ok(result.outcome === 'valid' || result.errors.length > 0);
    }),
  );
});
