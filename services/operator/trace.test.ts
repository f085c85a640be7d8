import assert from 'node:assert/strict';
import { test } from 'node:test';
import { UsageError } from './command.ts';
import { txnIdFrom } from './trace.ts';

const order1001 = '37585521-60c9-8d90-a37f-2e1b8a7081e6';

test('a payment is named by its id, or by its partner and key in either form', () => {
  assert.equal(txnIdFrom([order1001]), order1001);
  assert.equal(txnIdFrom(['acme', 'order-1001']), order1001);
  assert.equal(txnIdFrom(['acme', '"order-1001"']), order1001);
});

test('what can be no payment is refused', () => {
  const random = 'f47ac10b-58cc-4372-a567-0e02b2c3d479';
  for (const words of [[], ['order-1001'], [random], ['acme', ''], ['acme', 'schlüssel']]) {
    assert.throws(() => txnIdFrom(words), UsageError);
  }
});
