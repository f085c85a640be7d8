import assert from 'node:assert/strict';
import { test } from 'node:test';
import { continueProcess, killProcess, pauseProcess } from '@triplock/launcher';
import { eventually } from '@triplock/testing';
import { newKey } from './test/partner.ts';
import { home, onTheSystem, upSystem } from './test/system.ts';

const on = onTheSystem();

async function isPublished(txnId: string): Promise<boolean> {
  const sql = `SELECT FROM ledger.outbox WHERE txn_id = $1 AND state = 'published'`;
  return (await on.look.ledger.query(sql, [txnId])).length === 1;
}

test('an event that died with the broker before anyone received it still becomes a webhook', async () => {
  const consumers = on.system.services
    .map(({ name }) => name)
    .filter((name) => /^(partner-notifier|auditor)-/.test(name));
  let id: string;
  try {
    for (const name of consumers) await pauseProcess({ home, name });
    const accepted = await on.acme.pay(newKey('forgotten'), { amount: 3, currency: 'EUR' });
    ({ id } = JSON.parse(accepted.body) as { id: string });
    // An auditor that stands still may hold the lease to copy a ledger in Spanner, and loses it.
    await eventually(() => isPublished(id), {
      withinMs: 40_000,
      what: 'the event to be published',
    });
    await killProcess({ home, name: 'pubsub' });
  } finally {
    for (const name of consumers) await continueProcess({ home, name });
  }
  await upSystem();

  const limits = { withinMs: 60_000, what: 'the webhook and the auditor, from the second broker' };
  await eventually(async () => {
    const { published, inbox } = await on.look.counts(id);
    return published === 1 && inbox === 1 && (await on.look.webhooks(id)).length === 1;
  }, limits);
  assert.deepEqual(
    (await on.look.webhooks(id)).map(({ verified, attempts }) => ({ verified, attempts })),
    [{ verified: true, attempts: 1 }],
  );
});
