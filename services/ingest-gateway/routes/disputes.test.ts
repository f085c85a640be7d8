import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPostgresLedger } from '@triplock/ledger';
import { deriveDisputeId, type DisputeEnd } from '@triplock/payments';
import { traceparentFrom } from '@triplock/runtime';
import { aPayment } from '@triplock/testing';
import { transactionEdge } from '../test/route-edges.ts';

/** The routes over a ledger in which cards are charged and disputed. */
async function disputedEdge(t: Parameters<typeof transactionEdge>[0]) {
  const edge = await transactionEdge(t);
  const ledger = openPostgresLedger(edge.database.open('triplock_ledger'));
  const traceparent = traceparentFrom(undefined);
  const charge = async (partner: string, intentId: string) => {
    const payment = aPayment({ partner, paymentMethod: 'pm_card_visa' });
    const { txnId } = payment;
    await ledger.post([{ payment, traceparent, provider: 'stripe' }]);
    const intent = { provider: 'stripe', intentId } as const;
    const paid = { result: { state: 'succeeded' as const }, settledAt: new Date() };
    await ledger.settle({
      txnId,
      version: 1,
      traceparent,
      chargeId: `ch_${intentId}`,
      intent,
      ...paid,
    });
    return txnId;
  };
  const dispute = async (intentId: string, disputeId: string, end?: DisputeEnd) => {
    const evidenceDueBy = new Date('2026-12-04T10:15:00.000Z');
    const money = { amount: 250n, currency: 'EUR', reason: 'fraudulent', evidenceDueBy };
    const report = { provider: 'stripe', intentId, disputeId, ...money, end } as const;
    await ledger.noteDispute(report);
    return deriveDisputeId(report);
  };
  return { ...edge, charge, dispute };
}

test('a partner lists and reads its disputes, open ones and ended ones', async (t) => {
  const { get, charge, dispute } = await disputedEdge(t);
  const [first, second] = [await charge('acme', 'pi_1'), await charge('acme', 'pi_2')];
  const [open, lost] = [await dispute('pi_1', 'du_1'), await dispute('pi_2', 'du_2', 'lost')];
  const read = await get(`/v1/disputes/${open}`);
  assert.equal(read.status, 200);
  const { created_at, ...shown } = read.body;
  assert.match(String(created_at), /Z$/);
  assert.deepEqual(shown, {
    id: open,
    object: 'dispute',
    payment: first,
    amount: 250,
    currency: 'EUR',
    reason: 'fraudulent',
    status: 'open',
    evidence_due_by: '2026-12-04T10:15:00.000Z',
    provider: { name: 'stripe', dispute_id: 'du_1' },
  });
  const ended = await get(`/v1/disputes/${lost}`);
  assert.deepEqual([ended.body['status'], 'ended_at' in ended.body], ['lost', true]);
  await dispute('pi_1', 'du_1', 'won');
  const won = await get(`/v1/disputes/${open}`);
  assert.deepEqual([won.body['status'], won.body['created_at']], ['won', created_at]);

  const pages: [query: string, ids: string[], hasMore: boolean][] = [
    ['', [lost, open], false],
    ['?limit=1', [lost], true],
    [`?limit=1&starting_after=${lost}`, [open], false],
    [`?payment=${second}`, [lost], false],
    ['?status=won', [open], false],
    ['?status=open', [], false],
    [`?status=won&payment=${second}`, [], false],
  ];
  for (const [query, ids, hasMore] of pages) {
    const { status, body } = await get(`/v1/disputes${query}`);
    const listed = (body['data'] as { id: string }[]).map(({ id }) => id);
    assert.deepEqual([status, listed, body['has_more']], [200, ids, hasMore], query);
  }
  const [same] = (await get('/v1/disputes?status=lost')).body['data'] as object[];
  assert.deepEqual(same, ended.body);
});

test('what is another’s is not found, and what cannot be asked is pointed at', async (t) => {
  const { get, charge, dispute, gateway } = await disputedEdge(t);
  const payment = await charge('globex', 'pi_1');
  const theirs = await dispute('pi_1', 'du_1');
  for (const id of [theirs, payment, 'du_1', theirs.toUpperCase()]) {
    const answer = await get(`/v1/disputes/${id}`);
    assert.deepEqual([answer.status, answer.body['code']], [404, 'not_found'], id);
  }
  const empty = { object: 'list', data: [], has_more: false };
  assert.deepEqual((await get('/v1/disputes')).body, empty);
  assert.deepEqual((await get(`/v1/disputes?payment=${payment}`)).body, empty);
  for (const [query, pointer] of [
    ['?limit=0', '#/limit'],
    ['?status=closed', '#/status'],
    ['?payment=order-1', '#/payment'],
    ['?reference=a', '#/reference'],
    [`?starting_after=${theirs}`, '#/starting_after'],
    ['?starting_after=du_1', '#/starting_after'],
  ] as const) {
    const { status, body } = await get(`/v1/disputes${query}`);
    const [error] = body['errors'] as { pointer: string }[];
    assert.deepEqual([status, error?.pointer], [400, pointer], query);
  }
  const away = () => Promise.reject(new Error('PostgreSQL is away'));
  Object.assign(gateway.ledger, { findDispute: away, listDisputes: away });
  for (const path of ['/v1/disputes', `/v1/disputes/${theirs}`]) {
    const answer = await get(path, { as: 'globex' });
    assert.deepEqual([answer.status, answer.body['code']], [503, 'unavailable'], path);
  }
});
