import type { AcceptedRefund, JsonObject, Refund } from '@triplock/payments';
import type { StoredAnswer } from './accepted-response.ts';

/**
 * The 202 of a refund, made only from the request and its id, so that the claim store and the
 * ledger row give the same bytes.
 *
 * @throws for a version this code does not know, which is a bug of a deploy.
 */
export function renderAcceptedRefund(
  refund: Pick<AcceptedRefund, 'txnId' | 'paymentId' | 'responseVersion' | 'details'>,
): StoredAnswer {
  if (refund.responseVersion !== 1) {
    throw new Error(`response version ${refund.responseVersion} is not known here`);
  }
  const fields = {
    id: refund.txnId,
    object: 'refund',
    payment: refund.paymentId,
    status: 'pending',
    ...refundAsSent(refund.details),
  };
  return { status: 202, location: `/v1/refunds/${refund.txnId}`, body: JSON.stringify(fields) };
}

/** The request's fields as the partner sent them, in the order in which every answer shows them. */
export function refundAsSent({ amount, reason }: AcceptedRefund['details']): JsonObject {
  return {
    ...(amount === undefined ? {} : { amount: Number(amount) }),
    ...(reason === undefined ? {} : { reason }),
  };
}

/** A refund as `GET /v1/refunds/{id}` and a webhook's `data` show it. */
export function renderRefund(refund: Refund): JsonObject {
  const { money, details, failure } = refund;
  const amount = money?.amount ?? details.amount;
  return {
    id: refund.txnId,
    object: 'refund',
    payment: refund.paymentId,
    status: refund.state,
    ...(amount === undefined ? {} : { amount: Number(amount) }),
    ...(money === undefined ? {} : { currency: money.currency }),
    ...(details.reason === undefined ? {} : { reason: details.reason }),
    created_at: refund.acceptedAt.toISOString(),
    settled_at: refund.settledAt?.toISOString() ?? null,
    ...(failure === undefined ? {} : { failure: { ...failure } }),
  };
}

/** The same fields for a refund that was accepted and that the ledger does not know yet. */
export function renderPendingRefund(accepted: AcceptedRefund): JsonObject {
  return renderRefund({ ...accepted, state: 'pending', version: 0, settledAt: null });
}
