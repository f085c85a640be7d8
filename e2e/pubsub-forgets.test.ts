import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { continueProcess, killProcess, pauseProcess, type Endpoints } from '@triplock/infra';
import { eventually } from '@triplock/testing';
import { newKey, partner, type Partner } from './partner.ts';
import { home, restore, upSystem } from './system.ts';
import { witness, type Witness } from './witness.ts';

let system: Endpoints;
let acme: Partner;
let look: Witness;

before(async () => {
  system = await upSystem();
  acme = partner(system, 'acme');
  look = witness(system);
});
after(() => look.close());

async function isPublished(txnId: string): Promise<boolean> {
  const sql = `SELECT FROM ledger.outbox WHERE txn_id = $1 AND state = 'published'`;
  return (await look.database.query(sql, [txnId])).length === 1;
}

test('an event that died with the broker before anyone received it still becomes a webhook', async () => {
  const consumers = system.services
    .map(({ name }) => name)
    .filter((name) => /^(partner-notifier|auditor)-/.test(name));
  let id: string;
  try {
    for (const name of consumers) pauseProcess({ home, name });
    const accepted = await acme.pay(newKey('forgotten'), { amount: 3, currency: 'EUR' });
    ({ id } = JSON.parse(accepted.body) as { id: string });
    await eventually(() => isPublished(id));
    await killProcess({ home, name: 'pubsub' });
  } finally {
    for (const name of consumers) continueProcess({ home, name });
  }
  await restore();

  const limits = { withinMs: 60_000, what: 'the webhook and the auditor, from the second broker' };
  await eventually(async () => {
    const { published, inbox } = await look.sightings(id);
    return published === 1 && inbox === 1 && (await look.webhooks(id)).length === 1;
  }, limits);
  assert.deepEqual(
    (await look.webhooks(id)).map(({ verified, attempts }) => ({ verified, attempts })),
    [{ verified: true, attempts: 1 }],
  );
});
