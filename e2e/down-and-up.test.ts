import assert from 'node:assert/strict';
import { test } from 'node:test';
import { takeDown } from '@triplock/launcher';
import { eventually } from '@triplock/testing';
import { command, home, onTheSystem, upSystem } from './test/system.ts';
import { type Answer, newKey, partner } from './test/partner.ts';

const setup = onTheSystem();

const again = { withinMs: 60_000, what: 'the same answer after down and up' };

test('down right after a 202 and up again loses nothing: the same bytes, final, and the audit balances', async () => {
  const body = { amount: 910, currency: 'EUR', reference: 'down and up' };
  const keys = Array.from({ length: 8 }, () => newKey('down'));
  const first = await Promise.all(keys.map((key) => setup.acme.pay(key, body)));
  assert.deepEqual(new Set(first.map(({ status }) => status)), new Set([202]));

  await takeDown({ home });
  const acme = partner(await upSystem(), 'acme');
  for (const [n, key] of keys.entries()) {
    const settled = (answer: Answer) => answer.status !== 503 && answer;
    const retry = await eventually(async () => settled(await acme.pay(key, body)), again);
    assert.deepEqual([retry.status, retry.body], [202, first[n]!.body]);
    const { id } = JSON.parse(retry.body) as { id: string };
    const final = await acme.payment(id, 30);
    assert.match(final.body, /"status":"succeeded"/);
  }
  const { code, stdout, stderr } = await command('audit', '--json', '--wait', '60');
  assert.equal(code, 0, stdout + stderr);
});
