import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { eventually, stripeControl } from '@triplock/testing';
import { recordRun, type RecordedRun } from './test/history.ts';
import { onTheSystem } from './test/system.ts';
import { insist, newKey, type Partner } from './test/partner.ts';
import { killEach } from './storms.ts';

// CARDS=5000 runs it at full size; fewer keep `npm test` short.
const cards = Number(process.env['CARDS'] ?? 60);
const run = newKey('cards');

const on = onTheSystem();
// Whatever became of the test: the provider is well again for those that follow.
afterEach(() => control('DELETE', '/faults'));

/** Of all charges 10 % are made and never answered; of all calls 5 % are reset, 5 % a kept 500. */
const chances = [
  { fault: 'time-out', operation: 'payment_intents.create', probability: 0.1, delayMs: 15_000 },
  { fault: 'reset-after', probability: 0.05 },
  { fault: 'error', probability: 0.03 },
  { fault: 'error-after', probability: 0.02 },
];

/** Each strikes once for certain: of few cards, chance alone may spare all. */
const faults = [...chances.map((fault) => ({ ...fault, probability: 1, count: 1 })), ...chances];

test(
  `${cards} cards are charged once each while workers are killed and the provider loses answers, and ledger and provider agree`,
  { timeout: 360_000 + cards * 100 },
  async () => {
    await control('PUT', '/seed', { seed: 1 });
    const recorded = await recordRun(on, 'cards');
    for (const fault of faults) await control('POST', '/faults', fault);
    for (const { fault } of chances) recorded.history.fault(fault);
    const { sent, hits } = await underFire(recorded, async () => {
      const all = await sendCards(recorded);
      await eventually(async () => (await settled()) >= cards / 2, {
        withinMs: 60_000 + cards * 60,
        what: 'half of the cards to be charged or declined',
      });
      return all;
    });
    for (const [n, { fault }] of chances.entries()) assert.equal(hits[n], 1, fault);
    await eventually(async () => (await settled()) === cards, {
      withinMs: 120_000,
      what: 'all cards to be charged or declined after the faults',
    });

    const rows = await on.look.ledger.query<Row>(rowsSql, [run]);
    const stateOf = new Map(rows.map(({ txn_id: id, state }) => [id, state]));
    assert.equal(stateOf.size, cards);
    for (const { id, declined } of sent) {
      assert.equal(stateOf.get(id), declined ? 'failed' : 'succeeded');
    }
    const provider = await control<ProviderAudit>('GET', '/audit?metadata_key=txn_id');
    assert.deepEqual([provider.chargedTwice, provider.sharedMetadata], [[], []]);
    const [booked] = await on.look.ledger.query<{ count: number; amount: number }>(bookedSql);
    assert.deepEqual(provider.charges['eur'], booked);
    await recorded.finish({ complete: true });
  },
);

/** Kills worker after worker while `work` goes on; then the provider is well again. */
async function underFire<Sent>({ history }: RecordedRun, work: () => Promise<Sent>) {
  let isOver = false;
  const workers = on.system.services.filter(({ service }) => service === 'ledger-worker');
  const onKill = (names: readonly string[]) => history.fault('kill', names.join(' '));
  const storm = { seed: 1, everyMs: 5_000, together: 1, goesOn: () => !isOver, onKill };
  const kills = killEach(workers, storm);
  try {
    const sent = await Promise.race([work(), kills.then(() => assert.fail('the storm is over'))]);
    const struck = await control<{ faults: { hits: number }[] }>('GET', '/faults');
    await control('DELETE', '/faults');
    return { sent, hits: struck.faults.map(({ hits }) => hits) };
  } finally {
    isOver = true;
    await kills;
  }
}

type Card = { id: string; declined: boolean };

/** From fifty threads, each sending one card after the other; every sixth card is declined. */
async function sendCards({ acme }: RecordedRun): Promise<Card[]> {
  const sent: Card[] = [];
  const numbers = Array.from({ length: cards }).keys();
  const threads = Array.from({ length: 50 }, async () => {
    for (const n of numbers) sent.push(await sendCard(acme, n));
  });
  await Promise.all(threads);
  return sent;
}

async function sendCard(acme: Partner, n: number): Promise<Card> {
  const declined = n % 6 === 0;
  const method = declined ? 'pm_card_chargeDeclined' : 'pm_card_visa';
  const body = { amount: 1_000 + n, currency: 'EUR', payment_method: method, reference: run };
  const key = newKey('card');
  const answer = await insist(() => acme.pay(key, body));
  assert.equal(answer.status, 202, answer.body);
  return { id: (JSON.parse(answer.body) as Card).id, declined };
}

async function settled(): Promise<number> {
  const [row] = await on.look.ledger.query<{ settled: number }>(settledSql, [run]);
  return row!.settled;
}

test('what the provider will never charge fails at once, and says why', async () => {
  const refusals = [
    ['pm_nobody', 'resource_missing', /pm_nobody/],
    ['pm_card_chargeDeclinedExpiredCard', 'expired_card', /expired/],
    // A bank debit is in dollars.
    ['pm_usBankAccount_success', 'invalid_request_error', /currency .*eur/],
  ] as const;
  const ended = refusals.map(async ([method, code, message]) => {
    const body = { amount: 1_000, currency: 'EUR', payment_method: method };
    const { id } = JSON.parse((await on.acme.pay(newKey('card'), body)).body) as { id: string };
    const shown = JSON.parse((await on.acme.payment(id, 30)).body) as Shown;
    assert.deepEqual([shown.status, shown.failure?.code], ['failed', code], method);
    assert.match(shown.failure!.message, message);
    assert.equal('provider' in shown, false);
  });
  await Promise.all(ended);
});

type Shown = { status: string; failure?: { code: string; message: string } };
type Row = { txn_id: string; state: string };
type ProviderAudit = {
  charges: Record<string, { count: number; amount: number }>;
  chargedTwice: unknown[];
  sharedMetadata: unknown[];
};

const rowsSql = 'SELECT txn_id, state FROM ledger.transactions WHERE reference = $1';
const settledSql = `
  SELECT count(*)::int AS settled FROM ledger.transactions
  WHERE reference = $1 AND state <> 'pending'`;
const bookedSql = `
  SELECT count(*)::int AS count, sum(amount)::int AS amount FROM ledger.entries
  WHERE debit_account = 'provider.stripe:clearing' AND currency = 'EUR'`;

function control<Answer>(method: string, path: string, body?: object): Promise<Answer> {
  return stripeControl(on.system.providers.stripe.url, on.system.controlToken)<Answer>(
    method,
    path,
    body,
  );
}
