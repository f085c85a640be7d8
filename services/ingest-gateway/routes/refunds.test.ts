import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPostgresLedger } from '@triplock/ledger';
import { traceparentFrom } from '@triplock/runtime';
import { aPayment, aRefund, eventually } from '@triplock/testing';
import { claimOf, encodeAccepted } from '../accept/transaction.ts';
import { transactionEdge, type Answered } from '../test/route-edges.ts';

type Edge = Awaited<ReturnType<typeof transactionEdge>>;

let orders = 0;

/** A payment of 1250 that was accepted a moment ago. */
async function pay({ post }: Edge, as = 'acme'): Promise<string> {
  const body = { amount: 1_250, currency: 'EUR' };
  const accepted = await post('/v1/payments', { key: `order-${(orders += 1)}`, body, as });
  assert.equal(accepted.status, 202);
  return accepted.body['id'] as string;
}

test('a refund is accepted, read, settled, listed and shown on its payment', async (t) => {
  const edge = await transactionEdge(t);
  const { get, post, catchUp } = edge;
  const payment = await pay(edge);
  const path = `/v1/payments/${payment}/refunds`;

  const accepted = await post(path, { key: 'r-1', body: { reason: 'gone', amount: 400 } });
  const id = accepted.body['id'] as string;
  assert.equal(accepted.status, 202);
  assert.equal(accepted.headers['location'], `/v1/refunds/${id}`);
  assert.equal(
    accepted.text,
    `{"id":"${id}","object":"refund","payment":"${payment}","status":"pending","amount":400,"reason":"gone"}`,
  );
  const replay = await post(path, { key: '"r-1"', body: '{"amount":400, "reason":"\\u0067one"}' });
  assert.deepEqual([replay.status, replay.text], [202, accepted.text]);
  assert.equal(replay.headers['idempotency-replayed'], 'true');
  const reused = await post(path, { key: 'r-1', body: { amount: 401 } });
  assert.deepEqual([reused.status, reused.body['code']], [422, 'idempotency_key_reused']);

  const pending = await get(`/v1/refunds/${id}`);
  const { created_at, ...shown } = pending.body;
  assert.match(String(created_at), /Z$/);
  assert.deepEqual(shown, { ...accepted.body, settled_at: null });
  assert.deepEqual((await get(path)).body, { object: 'list', data: [], has_more: false });

  const rest = await post(path, { key: 'r-2', body: {} });
  assert.deepEqual([rest.status, 'amount' in rest.body], [202, false]);
  const toRead = `/v1/refunds/${rest.body['id'] as string}`;
  const waiting = get(toRead, { headers: { prefer: 'wait=10' } });
  await catchUp();
  const settled = await waiting;
  assert.equal(settled.headers['preference-applied'], 'wait=10');
  assert.equal(settled.headers['cache-control'], 'no-store');
  const { amount, currency, status } = settled.body;
  assert.deepEqual([amount, currency, status], [850, 'EUR', 'succeeded']);
  const { body } = await get(`/v1/payments/${payment}`);
  assert.deepEqual([body['status'], body['amount_refunded']], ['succeeded', 1_250]);

  const first = await get(`${path}?limit=1`);
  assert.deepEqual(first.body, { object: 'list', data: [settled.body], has_more: true });
  const second = await get(`${path}?limit=1&starting_after=${settled.body['id'] as string}`);
  const [last] = second.body['data'] as { id: string }[];
  assert.deepEqual([last?.id, second.body['has_more']], [id, false]);
});

test('what is no refund is refused, says why, and leaves nothing behind', async (t) => {
  const edge = await transactionEdge(t);
  const { post, appended } = edge;
  const [mine, theirs] = [await pay(edge), await pay(edge, 'globex')];
  const before = await appended();
  const path = `/v1/payments/${mine}/refunds`;
  const key = 'r-1';
  const notJson = { 'content-type': 'text/plain' };
  const bodies: [what: string, body: object | string | undefined][] = [
    ['an amount of 0', { amount: 0 }],
    ['an amount too large', { amount: 1e12 }],
    ['decimals', '{"amount":1.5}'],
    ['an exponent', '{"amount":1e2}'],
    ['a text as amount', { amount: '5' }],
    ['an unknown field', { amout: 5 }],
    ['a long reason', { reason: 'r'.repeat(201) }],
    ['a control character', { reason: '\u001b' }],
    ['no body', undefined],
    ['an empty body', ''],
    ['a list', []],
  ];
  const body = {};
  const other = (id: string) => `/v1/payments/${id}/refunds`;
  const cases: [what: string, answer: Promise<Answered>, status: number, code: string][] = [
    ...bodies.map(([what, wrong]): (typeof cases)[number] => {
      return [what, post(path, { key, body: wrong }), 400, 'invalid_request'];
    }),
    ['no key', post(path, { body }), 400, 'idempotency_key_missing'],
    ['an empty key', post(path, { key: '', body }), 400, 'idempotency_key_invalid'],
    ['a long key', post(path, { key: 'k'.repeat(256), body }), 400, 'idempotency_key_invalid'],
    ['no JSON', post(path, { key, body, headers: notJson }), 415, 'unsupported_media_type'],
    ["another partner's", post(other(theirs), { key, body }), 404, 'not_found'],
    ["nobody's", post(other(aPayment().txnId), { key, body }), 404, 'not_found'],
    ['a malformed id', post(other('order-1'), { key, body }), 404, 'not_found'],
    ['an id in capitals', post(other(mine.toUpperCase()), { key, body }), 404, 'not_found'],
  ];
  for (const [what, asked, status, code] of cases) {
    const answer = await asked;
    assert.deepEqual([answer.status, answer.body['code']], [status, code], what);
    assert.match(String(answer.headers['content-type']), /^application\/problem\+json/, what);
  }
  assert.equal(await appended(), before);
  const hint = await post(path, { key });
  assert.match(hint.text, /`\{\}` gives back all that is left/);
  const made = await post(path, { key, body: { reason: 'r'.repeat(200) } });
  assert.equal(made.status, 202);
  const ofRefund = await post(other(made.body['id'] as string), { key: 'r-2', body });
  assert.equal(ofRefund.status, 404);
  const counted = await edge.metrics.metrics();
  assert.match(counted, /triplock_gateway_refunds_total\{[^}]*outcome="refused"[^}]*\} 21/);
  assert.match(counted, /triplock_gateway_refunds_total\{[^}]*outcome="accepted"[^}]*\} 1/);
});

test('more than is left for good is refused at once, and its key is still unused', async (t) => {
  const edge = await transactionEdge(t);
  const { post, appended, catchUp } = edge;
  const payment = await pay(edge);
  const path = `/v1/payments/${payment}/refunds`;
  const first = await post(path, { key: 'r-1', body: { amount: 400 } });
  await catchUp();
  const { refused, key } = await untilRefused(edge, path, { amount: 851 });
  assert.deepEqual(refused.body['errors'], [
    { pointer: '#/amount', detail: 'more than is left of the payment: 850 minor units of EUR' },
  ]);
  const fits = await post(path, { key, body: { amount: 850 } });
  assert.deepEqual([fits.status, fits.headers['idempotency-replayed']], [202, undefined]);
  await catchUp();

  const none = await untilRefused(edge, path, {});
  const others = await appended();
  assert.match(none.refused.text, /#\/amount.*: 0 minor units of EUR/);
  const again = await post(path, { key: 'r-1', body: { amount: 400 } });
  assert.deepEqual([again.status, again.text], [202, first.text]);
  assert.equal(again.headers['idempotency-replayed'], 'true');
  const reused = await post(path, { key: 'r-1', body: { amount: 401 } });
  assert.deepEqual([reused.status, reused.body['code']], [422, 'idempotency_key_reused']);
  assert.equal((await post(path, { key: 'r-2', body: {}, as: 'globex' })).status, 404);
  assert.equal(await appended(), others);
  const counted = await edge.metrics.metrics();
  assert.match(counted, /triplock_gateway_refunds_total\{[^}]*outcome="refused"[^}]*\} 3/);
});

test('a refund that took what is gone gets its answer again, also from the ledger alone', async (t) => {
  const edge = await transactionEdge(t);
  const { post, catchUp, forgetClaims } = edge;
  const path = `/v1/payments/${await pay(edge)}/refunds`;
  const body = { amount: 1_250 };
  const first = await post(path, { key: 'r-1', body });
  await catchUp();
  await forgetClaims();
  const again = await eventually(async () => {
    const answer = await post(path, { key: 'r-1', body });
    return answer.status !== 503 && answer;
  });
  assert.deepEqual([again.status, again.text], [202, first.text]);
  assert.equal(again.headers['idempotency-replayed'], 'true');
});

test('what others have reserved, or may have been accepted, is left to the ledger', async (t) => {
  const edge = await transactionEdge(t, { leaseMs: 1 });
  const { post, catchUp, gateway } = edge;
  const payment = aPayment({ partner: 'acme' });
  const paid = { amount: 1_250, currency: 'EUR' };
  assert.equal((await post('/v1/payments', { key: payment.key, body: paid })).status, 202);
  const path = `/v1/payments/${payment.txnId}/refunds`;
  // Right behind its payment, and behind another one that is not decided.
  assert.equal((await post(path, { key: 'r-1', body: { amount: 9_999 } })).status, 202);
  await catchUp();
  await post(path, { key: 'r-2', body: { amount: 1_000 } });
  assert.equal((await post(path, { key: 'r-3', body: { amount: 300 } })).status, 202);
  await catchUp();
  // A gateway died with this one in the topic: nobody knows yet that it was accepted.
  const lost = aRefund(payment, { amount: 251n });
  await gateway.claims.claim(claimOf(lost));
  await gateway.log.append(encodeAccepted(lost, traceparentFrom(undefined)));
  const retried = await eventually(async () => {
    const answer = await post(path, { key: lost.key, body: { amount: 251 } });
    return answer.status !== 503 && answer;
  });
  assert.deepEqual([retried.status, retried.body['id']], [202, lost.txnId], retried.text);
});

test('of a payment that took no money nothing can go back, and a ledger that is away refuses nothing', async (t) => {
  const edge = await transactionEdge(t);
  const { post, database, gateway, catchUp } = edge;
  await pay(edge);
  await catchUp();
  const payment = aPayment({ partner: 'acme', paymentMethod: 'pm_card_visa' });
  const failure = { code: 'generic_decline', message: 'Your card was declined.' };
  const settlement = { result: { state: 'failed' as const, failure }, settledAt: new Date() };
  const ledger = openPostgresLedger(database.open('triplock_ledger'));
  await ledger.post([{ payment, traceparent: traceparentFrom(undefined), settlement }]);
  const path = `/v1/payments/${payment.txnId}/refunds`;
  const { refused, key } = await untilRefused(edge, path, { amount: 1 });
  assert.match(refused.text, /#\/amount.*the payment is failed: it took no money/);
  const isAway = () => Promise.reject(new Error('PostgreSQL is away'));
  await post('/v1/payments', { key: payment.key, body: { amount: 1_250, currency: 'EUR' } });
  gateway.ledger.find = isAway;
  const accepted = await post(path, { key, body: { amount: 1 } });
  assert.equal(accepted.status, 202, accepted.text);
});

/**
 * A refusal that appended nothing, and the key that it left unused. On a busy machine the ledger
 * may not say so soon enough: then it is accepted, and another one is asked for.
 */
function untilRefused(edge: Edge, path: string, body: object) {
  return eventually(async () => {
    const key = `too-much-${(orders += 1)}`;
    const before = await edge.appended();
    const refused = await edge.post(path, { key, body });
    if (refused.status === 202) await edge.catchUp();
    if (refused.status !== 400) return undefined;
    assert.equal(await edge.appended(), before);
    return { refused, key };
  });
}

test('what cannot be read is not found, and what cannot be asked is pointed at', async (t) => {
  const edge = await transactionEdge(t);
  const { get, post, catchUp } = edge;
  const [mine, theirs] = [await pay(edge), await pay(edge, 'globex')];
  const made = await post(`/v1/payments/${theirs}/refunds`, { key: 'r', body: {}, as: 'globex' });
  const refund = made.body['id'] as string;
  const list = `/v1/payments/${mine}/refunds`;
  const lost = async () => {
    for (const path of [
      `/v1/refunds/${refund}`,
      `/v1/refunds/${mine}`,
      `/v1/refunds/${aPayment().txnId}`,
      '/v1/refunds/r-1',
      `/v1/payments/${refund}`,
      `/v1/payments/${theirs}/refunds`,
      `/v1/payments/${refund}/refunds`,
      '/v1/payments/order-1/refunds',
    ]) {
      const answer = await get(path);
      assert.deepEqual([answer.status, answer.body['code']], [404, 'not_found'], path);
    }
  };
  // Before and after the ledger knows them.
  await lost();
  await catchUp();
  await lost();
  for (const [query, pointer] of [
    ['?limit=0', '#/limit'],
    ['?limit=101', '#/limit'],
    ['?status=failed', '#/status'],
    [`?starting_after=${refund}`, '#/starting_after'],
    ['?starting_after=x', '#/starting_after'],
  ] as const) {
    const { status, body } = await get(`${list}${query}`);
    const [error] = body['errors'] as { pointer: string }[];
    assert.deepEqual([status, error?.pointer], [400, pointer]);
  }
});
