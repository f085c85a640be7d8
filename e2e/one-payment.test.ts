import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  deriveEventId,
  deriveTxnId,
  type IdempotencyKey,
  type PartnerId,
} from '@triplock/payments';
import { eventually } from '@triplock/testing';
import { newKey } from './test/partner.ts';
import { onTheSystem } from './test/system.ts';

const on = onTheSystem();

const order = {
  amount: 1_999,
  currency: 'EUR',
  reference: 'order-7',
  metadata: { b: '2', a: '1' },
};

test('a payment goes from HTTP to one verified webhook, under ids made from its key', async () => {
  const key = newKey();
  const accepted = await on.acme.pay(key, order);
  assert.equal(accepted.status, 202, accepted.body);
  const txnId = deriveTxnId('payment', 'acme' as PartnerId, key as IdempotencyKey);
  assert.deepEqual(JSON.parse(accepted.body), {
    id: txnId,
    object: 'payment',
    status: 'pending',
    ...order,
  });
  assert.equal(accepted.headers['location'], `/v1/payments/${txnId}`);

  const final = JSON.parse((await on.acme.payment(txnId, 30)).body);
  assert.equal(final.status, 'succeeded');
  assert.equal(final.amount, order.amount);
  assert.match(final.settled_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

  const [webhook, ...more] = await eventually(async () => {
    const caught = await on.look.webhooks(txnId);
    return caught.length > 0 && caught;
  });
  assert.deepEqual(more, []);
  assert.equal(webhook!.id, deriveEventId(txnId, 'payment.succeeded'));
  assert.equal(webhook!.verified, true);
  assert.equal(webhook!.body.type, 'payment.succeeded');
  assert.equal(webhook!.body.sequence, 1);
  assert.deepEqual(webhook!.body.data, final);

  const once = { ledger: 1, entries: 1, outbox: 1, published: 1, inbox: 1, deliveries: 1 };
  await eventually(async () => {
    assert.deepEqual(await on.look.counts(txnId), once);
    return true;
  });
});

test('a payment is readable right after its 202, by its own partner alone', async () => {
  const accepted = await on.acme.pay(newKey(), order);
  const { id } = JSON.parse(accepted.body) as { id: string };
  const read = await on.acme.payment(id);
  assert.equal(read.status, 200);
  assert.match((JSON.parse(read.body) as { status: string }).status, /^(pending|succeeded)$/);
  assert.equal((await on.globex.payment(id)).status, 404);
});

test('a retry gets the same bytes, a reused key is refused, and neither has an effect', async () => {
  const key = newKey();
  const first = await on.acme.pay(key, order);
  const reordered = {
    metadata: { a: '1', b: '2' },
    reference: 'order-7',
    currency: 'EUR',
    amount: 1_999,
  };
  const retry = await on.acme.pay(`"${key}"`, reordered);
  assert.deepEqual([retry.status, retry.body], [first.status, first.body]);
  assert.equal(retry.headers['location'], first.headers['location']);
  assert.equal(retry.headers['idempotency-replayed'], 'true');
  assert.equal(first.headers['idempotency-replayed'], undefined);

  const reused = await on.acme.pay(key, { ...order, amount: 2_000 });
  assert.equal(reused.status, 422);
  assert.equal(JSON.parse(reused.body).code, 'idempotency_key_reused');

  const { id } = JSON.parse(first.body) as { id: string };
  await on.acme.payment(id, 30);
  assert.equal((await on.look.counts(id)).ledger, 1);
  assert.equal(JSON.parse((await on.acme.payment(id)).body).amount, 1_999);
});

test('two partners with the same key have two payments', async () => {
  const key = newKey();
  const ids = await Promise.all(
    [on.acme, on.globex].map(
      async (each) => JSON.parse((await each.pay(key, order)).body).id as string,
    ),
  );
  assert.notEqual(ids[0], ids[1]);
  await Promise.all([on.acme.payment(ids[0]!, 30), on.globex.payment(ids[1]!, 30)]);
  assert.deepEqual(await on.look.inLedger(ids), new Set(ids));
});
