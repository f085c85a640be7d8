import type { AcceptedRefund, Fingerprint, TxnId } from '@triplock/payments';
import type { SpannerTransaction } from './spanner/transaction.ts';
import { detailsText, otherRefundDetails, ownMs, resultOf } from '@triplock/ledger';
import type {
  RefundDecision,
  RefundOutcome,
  RefundPosting,
  ReservedRefund,
} from '@triplock/ledger';
import { readTransaction } from './read-rows.ts';
import {
  paymentColumns,
  refundColumns,
  settledRows,
  tellOfRefund,
  type RefundRows,
} from './settle-refund.ts';
import { paymentOfRefund, refundFrom, type TransactionRow } from './transaction-row.ts';
import { insertTransaction, updateTransaction, type Columns } from './write-rows.ts';

const dayMs = 86_400_000;

/**
 * Posts a refund by `Refunds.post`'s contract. Refund and payment are read under locks, so of
 * refunds racing on one payment each sees what the others reserved, or is aborted and looks again.
 */
export async function postRefund(
  tx: SpannerTransaction,
  posting: RefundPosting,
): Promise<RefundOutcome> {
  const { refund: accepted, traceparent } = posting;
  const before = await readTransaction(tx, accepted.txnId);
  if (before !== undefined && before.fingerprint !== accepted.fingerprint) {
    return { outcome: 'key-conflict', winner: before.fingerprint as Fingerprint };
  }
  if (before !== undefined && before.state !== 'pending') {
    return { outcome: 'already-recorded', state: before.state };
  }
  const found = await readTransaction(tx, accepted.paymentId);
  const refund = before ?? newRow(posting);
  const rows = { refund, payment: paymentOfRefund(refund, found) };
  const keep = (changed: TransactionRow) =>
    tx.write(
      before === undefined
        ? insertTransaction({ ...requestColumns(accepted), ...refundColumns(changed), traceparent })
        : updateTransaction(refundColumns(changed)),
    );

  const decision = judge(rows);
  if (decision === 'waiting') {
    const again = rows.payment === undefined ? askedAgain(refund) : refund;
    if (before === undefined || again !== refund) keep(again);
    return { outcome: 'waiting' };
  }
  const held = decision === 'reserved' ? reserved(rows) : rows;
  if (decision === 'reserved' && held.payment?.provider_intent_id != null) {
    if (held !== rows) {
      keep(held.refund);
      tx.write(updateTransaction(paymentColumns(held.payment)));
    }
    const outcome = before === undefined ? 'reserved' : 'unfinished';
    return { outcome, refund: refundFrom(held.refund, held.payment) as ReservedRefund };
  }
  const result = resultOf(decision);
  const settled = settledRows(held, { result, settledAt: posting.settledAt });
  keep(settled.refund);
  tellOfRefund(tx, settled, traceparent);
  return { outcome: 'settled', state: result.state };
}

function judge({ refund, payment }: RefundRows): RefundDecision {
  if (refund.amount !== null) return 'reserved';
  if (payment === undefined) {
    // One that is not there a day after its refund was accepted was set aside and will not come.
    return +refund.created_at > Date.now() - dayMs ? 'waiting' : 'payment_not_refundable';
  }
  if (payment.state === 'pending') return 'waiting';
  if (payment.state === 'failed') return 'payment_not_refundable';
  const left = payment.amount! - payment.refund_reserved;
  const fits = left > 0n && (refund.requested_amount ?? 0n) <= left;
  return fits ? 'reserved' : 'amount_exceeds_refundable';
}

/** With the refund's amount held on its payment; as they are, when it was held before. */
function reserved(rows: RefundRows): RefundRows {
  const { refund, payment } = rows;
  if (refund.amount !== null || payment === undefined) return rows;
  const amount = refund.requested_amount ?? payment.amount! - payment.refund_reserved;
  return {
    refund: { ...refund, amount, currency: payment.currency, version: refund.version + 1n },
    payment: {
      ...payment,
      refund_reserved: payment.refund_reserved + amount,
      version: payment.version + 1n,
    },
  };
}

/**
 * Its payment is not there: posting a batch of payments does not look for their refunds, so this
 * one is looked at again after a quarter of its age, a second at least and a minute at most.
 */
function askedAgain(refund: TransactionRow): TransactionRow {
  const ageMs = Date.now() - +refund.created_at;
  const due_at = new Date(Date.now() + Math.max(1_000, Math.min(60_000, ageMs / 4)));
  return { ...refund, due_at, version: refund.version + 1n };
}

function newRow({ refund, traceparent }: RefundPosting): TransactionRow {
  return {
    txn_id: refund.txnId,
    kind: 'refund',
    partner_id: refund.partnerId,
    idempotency_key: refund.key,
    fingerprint: refund.fingerprint,
    response_version: BigInt(refund.responseVersion),
    payment_id: refund.paymentId,
    requested_amount: refund.details.amount ?? null,
    details: detailsText(otherRefundDetails(refund)),
    created_at: refund.acceptedAt,
    state: 'pending',
    version: 1n,
    events: 0n,
    due_at: new Date(Date.now() + ownMs),
    traceparent,
    refund_reserved: 0n,
    amount_refunded: 0n,
    ...unset,
  };
}

const unset = {
  amount: null,
  currency: null,
  payment_method: null,
  reference: null,
  failure_code: null,
  failure_message: null,
  settled_at: null,
  provider: null,
  provider_intent_id: null,
  provider_charge_id: null,
  provider_refund_id: null,
};

/** The columns that say what was asked for; they never change. */
function requestColumns(refund: AcceptedRefund): Columns {
  return {
    kind: 'refund',
    partner_id: refund.partnerId,
    idempotency_key: refund.key,
    fingerprint: refund.fingerprint,
    response_version: refund.responseVersion,
    payment_id: refund.paymentId satisfies TxnId,
    requested_amount: refund.details.amount,
    details: detailsText(otherRefundDetails(refund)),
    created_at: refund.acceptedAt,
    events: 0,
  };
}
