import assert from 'node:assert/strict';
import { test } from 'node:test';
import { askAdmin, sumSeries } from '@triplock/demo';
import { askPubSub, pubsubName } from '@triplock/launcher';
import { eventually } from '@triplock/testing';
import { type Answer, newKey } from './test/partner.ts';
import { onTheSystem } from './test/system.ts';

const on = onTheSystem();

// No other promise pays in it, so all of its batches are of this file.
const currency = 'MRU';

type Batch = Record<'gross' | 'refunds' | 'net' | 'payments' | 'refund_count', number>;
type Balance = Record<'available' | 'settled' | 'refunded', number> & { currency: string };
type Settled = { id: string; amount: number; status: string; settled_at: string };

/** The partner's batches in this currency, by day. */
async function batchesOf(days: Iterable<string>): Promise<Map<string, Batch>> {
  const batches = new Map<string, Batch>();
  for (const day of days) {
    const answer = await on.acme.send({ path: `/v1/settlements?date=${day}` });
    assert.equal(answer.status, 200, answer.body);
    const { data } = JSON.parse(answer.body) as { data: (Batch & { currency: string })[] };
    const found = data.find((batch) => batch.currency === currency);
    const { gross = 0, refunds = 0, net = 0, payments = 0, refund_count = 0 } = found ?? {};
    batches.set(day, { gross, refunds, net, payments, refund_count });
  }
  return batches;
}

/** The partner's balance in this currency. */
async function balance(): Promise<{ refunded: number; total: number }> {
  const answer = await on.acme.send({ path: '/v1/balance' });
  assert.equal(answer.status, 200, answer.body);
  const { data } = JSON.parse(answer.body) as { data: Balance[] };
  const found = data.find((each) => each.currency === currency);
  const { available = 0, settled = 0, refunded = 0 } = found ?? {};
  return { refunded, total: available + settled };
}

const sumOf = (those: readonly Settled[]) => those.reduce((sum, { amount }) => sum + amount, 0);
const dayOf = ({ settled_at: at }: Settled) => at.slice(0, 10);
const idOf = ({ body }: Answer) => (JSON.parse(body) as { id: string }).id;

async function refundOnceSettled(id: string): Promise<Settled> {
  return eventually(
    async () => {
      const refund = JSON.parse(
        (await on.acme.send({ path: `/v1/refunds/${id}` })).body,
      ) as Settled;
      return refund.status === 'succeeded' && refund;
    },
    { withinMs: 30_000, what: 'the refund' },
  );
}

/** Also what its subscription is called. */
const feed = 'settlement-feed';

/** Has everything delivered to the feed again that it acknowledged since the snapshot. */
async function replaySince(snapshot: string): Promise<void> {
  const before = await duplicates();
  const body = { snapshot: pubsubName(`snapshots/${snapshot}`) };
  const request = { method: 'POST', name: `subscriptions/${feed}:seek`, body } as const;
  assert.ok((await askPubSub(on.system.pubsub, request)).ok);
  const all = async () => (await duplicates()) >= before + 7;
  await eventually(all, { withinMs: 60_000, what: 'the replay' });
}

async function duplicates(): Promise<number> {
  const feeds = on.system.services.filter(({ name }) => name.startsWith(`${feed}-`));
  const counter = { name: 'triplock_settlement_events_total', labels: { outcome: 'duplicate' } };
  const counts = feeds.map(async (feed) =>
    sumSeries(await (await askAdmin(feed, { path: '/metrics' })).text(), counter),
  );
  return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
}

test('a day is settled to what the partner paid and gave back, and so is its balance, after retries and a replay', async () => {
  const snapshot = newKey('settlements');
  const subscription = pubsubName(`subscriptions/${feed}`);
  const place = { name: `snapshots/${snapshot}`, body: { subscription } };
  assert.ok((await askPubSub(on.system.pubsub, { method: 'PUT', ...place })).ok);
  try {
    const today = new Date().toISOString().slice(0, 10);
    const tomorrow = new Date(Date.now() + 86_400_000).toISOString().slice(0, 10);
    const earlier = await batchesOf([today, tomorrow]);
    const balanceBefore = await balance();

    const amounts = [1_250, 7, 999_999_999_999, 3, 42];
    const answers = await Promise.all(
      amounts.map(async (amount) => {
        const [key, body] = [newKey('settled'), { amount, currency }];
        const [one, retry] = await Promise.all([on.acme.pay(key, body), on.acme.pay(key, body)]);
        return one.status === 202 ? one : retry;
      }),
    );
    const ids = answers.map(idOf);
    const paid = await Promise.all(
      ids.map(async (id) => JSON.parse((await on.acme.payment(id, 30)).body) as Settled),
    );
    const given: Settled[] = [];
    for (const [n, amount] of [
      [0, 250],
      [2, 999_999_999_999],
    ] as const) {
      const request = { method: 'POST', path: `/v1/payments/${ids[n]!}/refunds`, body: { amount } };
      const key = newKey('settled-refund');
      const asked = await on.acme.send({ ...request, key });
      assert.equal(asked.status, 202, asked.body);
      assert.equal((await on.acme.send({ ...request, key })).status, 202);
      given.push(await refundOnceSettled(idOf(asked)));
    }

    const expected = structuredClone(earlier);
    for (const payment of paid) {
      const batch = expected.get(dayOf(payment))!;
      batch.gross += payment.amount;
      batch.payments += 1;
    }
    for (const refund of given) {
      const batch = expected.get(dayOf(refund))!;
      batch.refunds += refund.amount;
      batch.refund_count += 1;
    }
    for (const batch of expected.values()) batch.net = batch.gross - batch.refunds;
    const settled = async () => {
      assert.deepEqual(await batchesOf(expected.keys()), expected);
      return true;
    };
    await eventually(settled, { withinMs: 30_000, what: 'the settlement' });
    await replaySince(snapshot);
    await settled();
    assert.deepEqual(await balance(), {
      refunded: balanceBefore.refunded + sumOf(given),
      total: balanceBefore.total + sumOf(paid) - sumOf(given),
    });

    const file = await on.acme.send({ path: `/v1/settlements/${dayOf(paid[0]!)}.csv` });
    const { gross, refunds, net, payments, refund_count } = expected.get(dayOf(paid[0]!))!;
    const row = [dayOf(paid[0]!), currency, gross, refunds, net, payments, refund_count].join(',');
    assert.ok(file.body.split('\r\n').includes(row), `${row} is not in ${file.body}`);
    const other = await on.globex.send({ path: `/v1/settlements?date=${dayOf(paid[0]!)}` });
    assert.ok(!other.body.includes(currency), other.body);
  } finally {
    await askPubSub(on.system.pubsub, { method: 'DELETE', name: `snapshots/${snapshot}` });
  }
});
