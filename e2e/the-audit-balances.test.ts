import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually, stripeControl } from '@triplock/testing';
import { command } from './test/command.ts';
import { newKey } from './test/partner.ts';
import { onTheSystem } from './test/system.ts';

const on = onTheSystem();

type Audit = {
  ok: boolean;
  counts: Record<string, number>;
  sums: ({ partner: string; currency: string } & Sums)[];
  drift: { check: string; ids: string[] }[];
  notCompared: { part: string; next: string }[];
};
type LayerSum = { count: number; amount: number };
type Sums = {
  gross: Record<string, LayerSum>;
  refunds: Record<string, LayerSum>;
  net: number;
  cards: { charged: Record<string, LayerSum>; givenBack: Record<string, LayerSum> };
};

async function audit(wait = '60'): Promise<{ code: number; result: Audit }> {
  const { code, stdout, stderr } = await command('audit', '--json', '--wait', wait);
  assert.ok(stdout.startsWith('{'), stdout + stderr);
  return { code, result: JSON.parse(stdout) as Audit };
}

test('every layer has the same payments, whatever was broken before', async () => {
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

test('charges and refunds are in the ledger and at the provider, to the minor unit', async () => {
  const card = { amount: 2_000, currency: 'DKK', payment_method: 'pm_card_visa' };
  const paid = await final(await on.acme.pay(newKey(), card));
  const declined = { ...card, payment_method: 'pm_card_chargeDeclined' };
  await final(await on.acme.pay(newKey(), declined));
  for (const body of [{ amount: 300 }, {}, { amount: 1 }]) {
    const path = `/v1/payments/${paid.id}/refunds`;
    const { status } = await on.acme.send({ method: 'POST', path, key: newKey(), body });
    assert.equal(status, 202);
  }
  const { code, result } = await audit();
  assert.deepEqual([result.drift, code], [[], 0]);
  const sums = result.sums.find((each) => `${each.partner}/${each.currency}` === 'acme/DKK')!;
  // Nobody else pays in this currency, but this test may have before.
  const times = sums.gross['ledger']!.count;
  const [charged, back] = [
    { count: times, amount: times * 2_000 },
    { count: 2 * times, amount: times * 2_000 },
  ];
  const { cards, gross, refunds, net } = sums;
  for (const layer of ['ledger', 'provider']) {
    assert.deepEqual([cards.charged[layer], cards.givenBack[layer]], [charged, back], layer);
  }
  for (const layer of ['ledger', 'published', 'delivered']) {
    assert.deepEqual([gross[layer], refunds[layer]], [charged, back], layer);
  }
  assert.deepEqual([times > 0, net, result.counts['charges']! >= times], [true, 0, true]);
});

test('the audit fails and says so when the provider cannot be asked', async () => {
  const control = stripeControl(on.system.stripe);
  await final(
    await on.acme.pay(newKey(), { amount: 500, currency: 'SEK', payment_method: 'pm_card_visa' }),
  );
  await control('POST', '/faults', { fault: 'unavailable', operation: 'charges.list' });
  try {
    const { code, result } = await audit('1');
    assert.deepEqual([code, result.ok], [1, false]);
    assert.deepEqual(result.drift, [{ check: 'not-compared', ids: ['provider'] }]);
    assert.match(result.notCompared[0]!.next, /audit again/);
  } finally {
    await control('DELETE', '/faults');
  }
});

test('the audit fails and names the event when a layer differs', async () => {
  const { body } = await on.acme.pay(newKey(), { amount: 2, currency: 'JPY' });
  const { id } = JSON.parse(body) as { id: string };
  await eventually(async () => (await on.look.webhooks(id)).length === 1);
  await audit();
  const announce = (hash: string) =>
    on.look.database.query<{ event_id: string }>(
      `UPDATE auditor.published SET payload_hash = ${hash} WHERE txn_id = $1 RETURNING event_id`,
      [id],
    );
  const [published] = await announce('reverse(payload_hash)');
  try {
    const { code, result } = await audit();
    assert.equal(code, 1);
    assert.ok(result.drift.some(({ ids }) => ids.includes(published!.event_id)));
  } finally {
    await announce('reverse(payload_hash)');
  }
  assert.equal((await audit()).code, 0);
});

/** The payment of a 202 once it is final. */
async function final({ body }: { body: string }): Promise<{ id: string; status: string }> {
  const { id } = JSON.parse(body) as { id: string };
  const payment = JSON.parse((await on.acme.payment(id, 30)).body) as {
    id: string;
    status: string;
  };
  assert.notEqual(payment.status, 'pending');
  return payment;
}
