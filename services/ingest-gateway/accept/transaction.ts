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
  type StoredAnswer,
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

/** What a partner asks to be done once per key. */
export type Transaction =
  ({ kind: 'payment' } & AcceptedPayment) | ({ kind: 'refund' } & AcceptedRefund);

/** The same as the ledger holds it. */
export type Posted = ({ kind: 'payment' } & Payment) | ({ kind: 'refund' } & Refund);

/**
 * The 202. A function of the request alone, so that a retry, a takeover and the ledger's row give
 * the same bytes.
 */
export function renderAnswer(transaction: Transaction): StoredAnswer {
  switch (transaction.kind) {
    case 'payment':
      return renderAccepted(transaction);
    case 'refund':
      return renderAcceptedRefund(transaction);
    default:
      return transaction satisfies never;
  }
}

/** The record of the accepted topic. */
export function encodeAccepted(transaction: Transaction, traceparent: string): EncodedRecord {
  switch (transaction.kind) {
    case 'payment':
      return encodePaymentAccepted(transaction, traceparent);
    case 'refund':
      return encodeRefundAccepted(transaction, traceparent);
    default:
      return transaction satisfies never;
  }
}

/** What a read shows until the ledger has it. */
export function renderUnposted(transaction: Transaction): JsonObject {
  switch (transaction.kind) {
    case 'payment':
      return renderPending(transaction);
    case 'refund':
      return renderPendingRefund(transaction);
    default:
      return transaction satisfies never;
  }
}

/** What a read shows of it once the ledger has it. */
export function renderPosted(posted: Posted): JsonObject {
  switch (posted.kind) {
    case 'payment':
      return renderPayment(posted);
    case 'refund':
      return renderRefund(posted);
    default:
      return posted satisfies never;
  }
}

/** The ledger's row, asked for after the call. */
export async function findPosted(
  { ledger, refunds }: Gateway,
  { kind, txnId }: { kind: TransactionKind; txnId: TxnId },
): Promise<Posted | undefined> {
  switch (kind) {
    case 'payment': {
      const payment = await ledger.find(txnId);
      return payment && { kind, ...payment };
    }
    case 'refund': {
      const refund = await refunds.find(txnId);
      return refund && { kind, ...refund };
    }
    default:
      return kind satisfies never;
  }
}
