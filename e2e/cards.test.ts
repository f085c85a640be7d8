import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { eventually, stripeControl } from '@triplock/testing';
import { command } from './command.ts';
import { newKey } from './partner.ts';
import { onTheSystem } from './stage.ts';

const on = onTheSystem();
// Whatever became of the test: the provider is well again for those that follow.
afterEach(() => control('DELETE', '/faults'));

/** Of all calls 15 % are lost after they were carried out, and 10 % go wrong before. */
const faults = [
  { fault: 'reset-after', probability: 0.05 },
  { fault: 'half-body', probability: 0.05 },
  { fault: 'error-after', probability: 0.05 },
  { fault: 'error', probability: 0.05 },
  { fault: 'unavailable', probability: 0.05 },
];

test(
  'cards are charged once each while the provider loses answers, and the ledger agrees with it',
  { timeout: 240_000 },
  async () => {
    for (const fault of faults) await control('POST', '/faults', fault);
    const sent = await Promise.all(
      Array.from({ length: 60 }, async (_, n) => {
        const declined = n % 6 === 0;
        const method = declined ? 'pm_card_chargeDeclined' : 'pm_card_visa';
        const body = { amount: 1_000 + n, currency: 'EUR', payment_method: method };
        const answer = await on.acme.pay(newKey('card'), body);
        assert.equal(answer.status, 202);
        return { id: (JSON.parse(answer.body) as { id: string }).id, declined };
      }),
    );
    const ids = sent.map(({ id }) => id);
    const rows = await eventually(
      async () => {
        const now = await on.look.database.query<Row>(rowsSql, [ids]);
        return now.length === 60 && now.every(({ state }) => state !== 'pending') && now;
      },
      { withinMs: 200_000, what: 'all cards to be charged or declined' },
    );
    const stateOf = new Map(rows.map(({ txn_id: id, state }) => [id, state]));
    for (const { id, declined } of sent) {
      assert.equal(stateOf.get(id), declined ? 'failed' : 'succeeded');
    }
    const { faults: struck } = await control<{ faults: { hits: number }[] }>('GET', '/faults');
    for (const { hits } of struck) assert.ok(hits > 0);

    const provider = await control<ProviderAudit>('GET', '/audit?metadata_key=txn_id');
    assert.deepEqual([provider.chargedTwice, provider.sharedMetadata], [[], []]);
    const [booked] = await on.look.database.query<{ count: number; amount: number }>(bookedSql);
    assert.deepEqual(provider.charges['eur'], booked);
    const audit = await command('audit', '--wait', '60');
    assert.equal(audit.code, 0, audit.stdout + audit.stderr);
  },
);

type Row = { txn_id: string; state: string };
type ProviderAudit = {
  charges: Record<string, { count: number; amount: number }>;
  chargedTwice: unknown[];
  sharedMetadata: unknown[];
};

const rowsSql = 'SELECT txn_id, state FROM ledger.transactions WHERE txn_id = ANY ($1::uuid[])';
const bookedSql = `
  SELECT count(*)::int AS count, sum(amount)::int AS amount FROM ledger.entries
  WHERE debit_account = 'provider.stripe:clearing' AND currency = 'EUR'`;

function control<Answer>(method: string, path: string, body?: object): Promise<Answer> {
  return stripeControl(on.system.stripe)<Answer>(method, path, body);
}
