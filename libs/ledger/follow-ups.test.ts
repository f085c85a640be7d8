import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { refusals } from './follow-ups.ts';

test('partners are told what to do about every refusal of the ledger', () => {
  const page = readFileSync(new URL('../../docs/partners.md', import.meta.url), 'utf8');
  const told = page.slice(page.indexOf('## Failures'), page.indexOf('## Webhooks'));
  for (const code of Object.keys(refusals)) {
    assert.ok(told.includes(`\`${code}\``), `${code} is not on the page`);
  }
});
