import {
  encodePaymentAccepted,
  encodeRefundAccepted,
  renderAccepted,
  renderAcceptedRefund,
  renderPayment,
  renderPending,
  renderPendingRefund,
  renderRefund,
  type EncodedRecord,
  type AcceptedAnswer,
} from '@triplock/contracts';
import type {
  AcceptedPayment,
  AcceptedRefund,
  JsonObject,
  Payment,
  Refund,
  TransactionKind,
  TxnId,
} from '@triplock/payments';
import type { Gateway } from '../gateway.ts';

// A kind of payment is one more word in `paymentKinds`, and these functions serve it as they are.
// Another member of the unions does not compile until each of them has its case.

/** What a partner asks to be done once per key. */
export type Transaction = AcceptedPayment | ({ kind: 'refund' } & AcceptedRefund);

/** The same as the ledger holds it. */
export type Posted = Payment | ({ kind: 'refund' } & Refund);

/**
 * The 202. A function of the request alone, so that a retry, a takeover and the ledger's row give
 * the same bytes.
 *
 * @throws for a form that a newer gateway gave it in.
 */
export function renderAnswer(transaction: Transaction | Posted): AcceptedAnswer {
  if (transaction.kind === 'refund') return renderAcceptedRefund(transaction);
  return renderAccepted(transaction);
}

/** The record of the accepted topic. */
export function encodeAccepted(transaction: Transaction, traceparent: string): EncodedRecord {
  if (transaction.kind === 'refund') return encodeRefundAccepted(transaction, traceparent);
  return encodePaymentAccepted(transaction, traceparent);
}

/** The key of its record, which decides its partition: a refund stays behind its payment. */
export function recordKeyOf(transaction: Transaction): TxnId {
  return transaction.kind === 'refund' ? transaction.paymentId : transaction.txnId;
}

/** What a read shows until the ledger has it. */
export function renderUnposted(transaction: Transaction): JsonObject {
  if (transaction.kind === 'refund') return renderPendingRefund(transaction);
  return renderPending(transaction);
}

/** What a read shows of it once the ledger has it. */
export function renderPosted(posted: Posted): JsonObject {
  return posted.kind === 'refund' ? renderRefund(posted) : renderPayment(posted);
}

/** The ledger's row, asked for after the call; one of another kind is none. */
export async function findPosted(
  { ledger, refunds }: Gateway,
  { kind, txnId }: { kind: TransactionKind; txnId: TxnId },
): Promise<Posted | undefined> {
  if (kind === 'refund') {
    const refund = await refunds.find(txnId);
    return refund && { kind, ...refund };
  }
  const payment = await ledger.find(txnId);
  return payment?.kind === kind ? payment : undefined;
}
