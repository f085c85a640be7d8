import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { testPaymentMethods, type ChargeBehaviour } from './test-payment-methods.ts';

const page = readFileSync(new URL('../../docs/partners.md', import.meta.url), 'utf8');

/** The code that a payment ends with, if the method has it fail. */
function codeOf(charge: ChargeBehaviour): string | undefined {
  const failure =
    charge.does === 'decline'
      ? charge.failure
      : charge.does === 'process' && typeof charge.ends === 'object'
        ? charge.ends
        : undefined;
  return failure && (failure.declineCode ?? failure.code);
}

test('partners are told of every test payment method, and in its line of the code it fails with', () => {
  for (const [name, { type, charge }] of Object.entries(testPaymentMethods)) {
    const shown = `\`${name.replace('pm_card_', '')}\``;
    const line = page.split('\n').find((each) => each.includes(shown));
    assert.ok(line !== undefined, `${name} is not on the page`);
    const code = codeOf(charge);
    if (code === undefined) continue;
    assert.ok((type === 'card' ? line : page).includes(`\`${code}\``), `${name}: ${code}`);
  }
});
