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
import type { Ledger, Refunds } from '@triplock/ledger';
import type {
  AcceptedPayment,
  AcceptedRefund,
  JsonObject,
  Payment,
  Refund,
  TxnId,
} from '@triplock/payments';
import { shareReads } from '@triplock/runtime';

/** What a partner asks to be done once per key. */
export type AcceptedTransaction = AcceptedPayment | AcceptedRefund;

/** What accepting does differently for payments and for refunds. */
export type AcceptForm<Accepted extends AcceptedTransaction> = {
  /** The ledger's row, from which the 202 can be made again; asked for after the call. */
  find(txnId: TxnId): Promise<Accepted | undefined>;
  /** The 202. */
  renderAccepted(accepted: Accepted): StoredAnswer;
  /** What a read shows until the ledger has it. */
  renderPending(accepted: Accepted): JsonObject;
  /** The record of the accepted topic. */
  encode(accepted: Accepted, traceparent: string): EncodedRecord;
};

/** What reading does differently for payments and for refunds. */
export type ReadForm<Held extends Payment | Refund> = {
  /** How what is shown names itself. */
  object: 'payment' | 'refund';
  /** The ledger's row; asked for after the call. */
  find(txnId: TxnId): Promise<Held | undefined>;
  /** What a read shows of it. */
  render(held: Held): JsonObject;
};

/** The form of payments. */
export function paymentForm(
  ledger: Pick<Ledger, 'find'>,
): AcceptForm<AcceptedPayment> & ReadForm<Payment> {
  return {
    object: 'payment',
    find: shareReads((txnId: TxnId) => ledger.find(txnId)),
    renderAccepted,
    renderPending,
    render: renderPayment,
    encode: encodePaymentAccepted,
  };
}

/** The form of refunds. */
export function refundForm(
  refunds: Pick<Refunds, 'find'>,
): AcceptForm<AcceptedRefund> & ReadForm<Refund> {
  return {
    object: 'refund',
    find: shareReads((txnId: TxnId) => refunds.find(txnId)),
    renderAccepted: renderAcceptedRefund,
    renderPending: renderPendingRefund,
    render: renderRefund,
    encode: encodeRefundAccepted,
  };
}
