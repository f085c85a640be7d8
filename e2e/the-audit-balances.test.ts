import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '@triplock/testing';
import { command } from './command.ts';
import { newKey } from './partner.ts';
import { onTheSystem } from './stage.ts';

const on = onTheSystem();

type Audit = {
  ok: boolean;
  counts: Record<string, number>;
  drift: { check: string; ids: string[] }[];
};

async function audit(): Promise<{ code: number; result: Audit }> {
  const { code, stdout, stderr } = await command('audit', '--json', '--wait', '60');
  assert.ok(stdout.startsWith('{'), stdout + stderr);
  return { code, result: JSON.parse(stdout) as Audit };
}

test('every layer tells of the same payments, whatever was broken before', async () => {
  await on.acme.pay(newKey(), { amount: 1, currency: 'JPY' });
  const { code, result } = await audit();
  assert.deepEqual(result.drift, []);
  assert.equal(code, 0);
  const { accepted, ledger, deadLettered, keyConflicts, events, published, inbox } = result.counts;
  assert.equal(accepted, ledger! + deadLettered! + keyConflicts!);
  assert.deepEqual(
    [events, published, inbox],
    [ledger, ledger, ledger].map((n) => n! + keyConflicts!),
  );
});

test('the audit fails and names the event when a layer tells otherwise', async () => {
  const { body } = await on.acme.pay(newKey(), { amount: 2, currency: 'JPY' });
  const { id } = JSON.parse(body) as { id: string };
  await eventually(async () => (await on.look.webhooks(id)).length === 1);
  await audit();
  const tell = (hash: string) =>
    on.look.database.query<{ event_id: string }>(
      `UPDATE auditor.published SET payload_hash = ${hash} WHERE txn_id = $1 RETURNING event_id`,
      [id],
    );
  const [published] = await tell('reverse(payload_hash)');
  try {
    const { code, result } = await audit();
    assert.equal(code, 1);
    assert.ok(result.drift.some(({ ids }) => ids.includes(published!.event_id)));
  } finally {
    await tell('reverse(payload_hash)');
  }
  assert.equal((await audit()).code, 0);
});
