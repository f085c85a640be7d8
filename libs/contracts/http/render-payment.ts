import type { AcceptedPayment, JsonObject, Payment } from '@triplock/payments';
import { asSent } from './accepted-response.ts';

/** A payment as `GET /v1/payments/{id}` and a webhook's `data` show it. */
export function renderPayment(payment: Payment): JsonObject {
  return {
    id: payment.txnId,
    object: 'payment',
    status: payment.state,
    ...asSent(payment.details),
    amount_refunded: Number(payment.amountRefunded),
    created_at: payment.acceptedAt.toISOString(),
    settled_at: payment.settledAt?.toISOString() ?? null,
    ...(payment.failure === undefined ? {} : { failure: { ...payment.failure } }),
    ...renderProvider(payment.provider),
  };
}

/** Shown once there is a charge: an intent alone has moved nothing. */
function renderProvider(provider: Payment['provider']): JsonObject {
  if (provider?.chargeId === undefined) return {};
  return { provider: { name: provider.name, charge_id: provider.chargeId } };
}

/** The same fields for a payment that was accepted and that the ledger does not know yet. */
export function renderPending(accepted: AcceptedPayment): JsonObject {
  return renderPayment({
    ...accepted,
    state: 'pending',
    version: 0,
    amountRefunded: 0n,
    settledAt: null,
  });
}
