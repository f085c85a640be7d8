import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { afterEach, test } from 'node:test';
import { eventually, stripeControl } from '@triplock/testing';
import { makeDue, onTheSystem } from './test/system.ts';
import { newKey } from './test/partner.ts';
import { becomeFinalOnce } from './storms.ts';

const on = onTheSystem();
// Whatever became of the test: Stripe reports what it has to report, once.
afterEach(() => control('PUT', '/webhooks', { paused: false, copies: 1, order: 'any' }));

const asks = 'pm_card_authenticationRequired';
// Far below the 20 s after which a row is looked at without a webhook.
const soon = { withinMs: 10_000 };

test('who authenticates, fails to, or has a slow bank is reported by Stripe, however often and in any order', async () => {
  await control('PUT', '/webhooks', { paused: true, copies: 3, order: 'reversed' });
  const [acts, fails, bank] = await Promise.all([
    waiting(asks),
    waiting(asks),
    waiting('pm_usBankAccount_success', 'USD'),
  ]);
  const before = await woken();
  await customer(acts, 'succeeded');
  await customer(fails, 'failed');
  await control('POST', '/settle', { id: bank.intentId });
  await control('PUT', '/webhooks', { paused: false });
  await becomes(acts.id, 'succeeded');
  await becomes(bank.id, 'succeeded');
  const failed = await becomes(fails.id, 'failed');
  assert.equal(failed.failure_code, 'payment_intent_authentication_failure');
  assert.ok((await woken()) >= before + 3);
  await eventually(async () => {
    const caught = await on.look.webhooks(fails.id);
    return caught.some(({ verified, body }) => verified && body.type === 'payment.failed');
  });
  await allReported();
  for (const { id } of [acts, fails, bank]) {
    const { entries, outbox } = await on.look.counts(id);
    // Who has to act is told of before the end.
    const events = id === bank.id ? 1 : 2;
    assert.deepEqual([entries, outbox], [id === fails.id ? 0 : 1, events]);
  }
});

test('what Stripe could not report is found out all the same, and what it reports too late changes nothing', async () => {
  await control('PUT', '/webhooks', { paused: true });
  const acts = await waiting(asks);
  await customer(acts, 'succeeded');
  await makeDue(on, acts.id);
  await becomes(acts.id, 'succeeded');
  await control('PUT', '/webhooks', { paused: false });
  await allReported();
  await becomeFinalOnce(on, [acts.id]);
});

test('a partner lists its disputes and follows each to its end, however Stripe reports them', async () => {
  const paid = await waiting(asks);
  await customer(paid, 'succeeded');
  await becomes(paid.id, 'succeeded');
  await control('PUT', '/webhooks', { paused: true, copies: 3, order: 'reversed' });
  const dispute = async (amount: number) => {
    const path = `/payment_intents/${paid.intentId}/dispute`;
    return (await control<{ id: string }>('POST', path, { amount })).id;
  };
  const decide = (id: string, outcome: string) =>
    control('POST', `/disputes/${id}/close`, { outcome });
  // The end of one is reported with its beginning, and that of the other long after it.
  const [lost, won] = [await dispute(400), await dispute(300)];
  await decide(lost, 'lost');
  await control('PUT', '/webhooks', { paused: false });
  const shown = async (query: string) => {
    const { body } = await on.acme.send({ path: `/v1/disputes?payment=${paid.id}${query}` });
    const { data } = JSON.parse(body) as { data: Shown[] };
    return data.map(({ provider, amount, status }) => [provider.dispute_id, amount, status]);
  };
  await eventually(async () => {
    const listed = await shown('');
    assert.equal(new Set(listed.map(([id]) => id)).size, listed.length);
    return listed.length === 2 && (await shown('&status=lost')).length === 1;
  });
  assert.deepEqual(await shown('&status=open'), [[won, 300, 'open']]);
  await decide(won, 'won');
  await eventually(async () => (await shown('&status=open')).length === 0);
  await allReported();
  assert.deepEqual(await shown('&status=lost'), [[lost, 400, 'lost']]);
  assert.deepEqual(await shown('&status=won'), [[won, 300, 'won']]);
  const theirs = await on.globex.send({ path: `/v1/disputes?payment=${paid.id}` });
  assert.deepEqual((JSON.parse(theirs.body) as { data: unknown[] }).data, []);
  // Once each, by the payment's next events; of an end none tells.
  const { outbox } = await on.look.counts(paid.id);
  assert.equal(outbox, 4);
});

type Shown = { amount: number; status: string; provider: { dispute_id: string } };

test('what was not signed by Stripe is refused by every worker, and believed by none', async () => {
  const { id, intentId } = await waiting(asks);
  const body = JSON.stringify({
    id: 'evt_forged',
    object: 'event',
    type: 'payment_intent.succeeded',
    livemode: false,
    data: { object: { id: intentId, status: 'succeeded' } },
  });
  const at = Math.floor(Date.now() / 1_000);
  const mac = createHmac('sha256', 'whsec_guessed').update(`${at}.${body}`).digest('hex');
  const rowNow = () => on.look.ledger.query(rowSql, [id]);
  const before = await rowNow();
  assert.equal(on.system.providers.stripe.webhooks.length, 2);
  for (const url of on.system.providers.stripe.webhooks) {
    for (const headers of [{}, { 'stripe-signature': `t=${at},v1=${mac}` }]) {
      const answer = await fetch(url, { method: 'POST', body, headers });
      assert.equal(answer.status, 400);
      await answer.body?.cancel();
    }
  }
  assert.deepEqual(await rowNow(), before);
  await control('POST', `/payment_intents/${intentId}/authenticate`, { outcome: 'succeeded' });
  await becomes(id, 'succeeded');
});

type Waiting = { id: string; intentId: string };
type Row = {
  state: string;
  failure_code: string | null;
  provider_intent_id: string | null;
  action_expires_at: Date | null;
};

const rowSql = `
  SELECT state, failure_code, provider_intent_id, action_expires_at, version, due_at
  FROM ledger.transactions WHERE txn_id = $1`;

/** A payment that somebody outside has to decide. */
async function waiting(method: string, currency = 'EUR'): Promise<Waiting> {
  const body = { amount: 1_250, currency, payment_method: method };
  const answer = await on.acme.pay(newKey('asks'), body);
  assert.equal(answer.status, 202);
  const { id } = JSON.parse(answer.body) as { id: string };
  const intentId = await eventually(async () => {
    const [row] = await on.look.ledger.query<Row>(rowSql, [id]);
    const stored = row?.provider_intent_id;
    if (!stored) return false;
    const intent = await fetch(`${on.system.providers.stripe.url}/v1/payment_intents/${stored}`, {
      headers: { authorization: 'Bearer sk_test_triplock' },
    });
    const { status } = (await intent.json()) as { status: string };
    const isNoted = status === 'requires_action' && row.action_expires_at !== null;
    return (isNoted || status === 'processing') && stored;
  });
  return { id, intentId };
}

function becomes(id: string, state: string): Promise<Row> {
  const what = `payment ${id} to be ${state}`;
  return eventually(
    async () => {
      const [row] = await on.look.ledger.query<Row>(rowSql, [id]);
      return row?.state === state && row;
    },
    { ...soon, what },
  );
}

function customer({ intentId }: Waiting, outcome: 'succeeded' | 'failed'): Promise<unknown> {
  return control('POST', `/payment_intents/${intentId}/authenticate`, { outcome });
}

async function allReported(): Promise<void> {
  type Shown = { undelivered: unknown[] };
  await eventually(async () => {
    const { undelivered } = await control<Shown>('GET', '/webhooks');
    return undelivered.length === 0;
  });
}

/** How many of Stripe's webhooks had a row looked at, over all workers. */
async function woken(): Promise<number> {
  const workers = on.system.services.filter(({ service }) => service === 'ledger-worker');
  const counts = await Promise.all(
    workers.map(async ({ metrics }) => {
      const text = await (await fetch(metrics)).text();
      const line = /^triplock_worker_provider_events_total\{outcome="woken".*\} (\d+)$/m;
      return Number(line.exec(text)?.[1] ?? 0);
    }),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

function control<Answer>(method: string, path: string, body?: object): Promise<Answer> {
  return stripeControl(on.system.providers.stripe.url, on.system.controlToken)<Answer>(
    method,
    path,
    body,
  );
}
