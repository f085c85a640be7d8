import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  deriveDisputeId,
  deriveTxnId,
  type Currency,
  type Dispute,
  type IdempotencyKey,
  type PartnerId,
} from '@triplock/payments';
import { Compile } from '../schema.ts';
import { disputeSchema, parseDisputeListQuery, renderDispute } from './dispute.ts';

const partnerId = 'acme' as PartnerId;
const txnId = deriveTxnId('payment', partnerId, 'order-1001' as IdempotencyKey);
const open: Dispute = {
  id: deriveDisputeId({ provider: 'stripe', intentId: 'pi_1', disputeId: 'du_1' }),
  partnerId,
  paymentId: txnId,
  provider: { name: 'stripe', disputeId: 'du_1' },
  money: { amount: 0n, currency: 'EUR' as Currency },
  reason: 'general',
  status: 'open',
  createdAt: new Date(0),
};

test('a dispute is shown as the document says, open or ended, with or without a time for evidence', () => {
  const described = Compile(disputeSchema);
  const ended = { status: 'lost', endedAt: new Date(2), evidenceDueBy: new Date(1) } as const;
  for (const dispute of [open, { ...open, ...ended }]) {
    assert.deepEqual(described.Errors(renderDispute(dispute)), []);
  }
  const { ended_at, evidence_due_by } = renderDispute({ ...open, ...ended });
  const times = ['1970-01-01T00:00:00.002Z', '1970-01-01T00:00:00.001Z'];
  assert.deepEqual([ended_at, evidence_due_by], times);
  assert.equal('partner' in renderDispute(open), false);
});

test('a query for disputes is taken whole, or every parameter of it that is wrong is named', () => {
  const [payment, after] = [txnId, open.id];
  const query = `limit=7&starting_after=${after}&payment=${payment}&status=won`;
  assert.deepEqual(parseDisputeListQuery(query), {
    outcome: 'valid',
    query: { limit: 7, startingAfter: after, payment, status: 'won' },
  });
  const wrong = parseDisputeListQuery('status=ended&payment=1&limit=0&by=me');
  assert.ok(wrong.outcome === 'invalid');
  const pointers = wrong.errors.map(({ pointer }) => pointer);
  assert.deepEqual(pointers, ['#/status', '#/payment', '#/limit', '#/by']);
});
