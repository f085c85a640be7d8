import type { AcceptedPayment, JsonObject, JsonValue } from '@triplock/payments';

/**
 * The newest form of the 202 body. Add a case to {@link renderAccepted} for another; never edit
 * one.
 */
export const responseVersion = 1;

/** An answer that can be given again byte for byte. */
export type StoredAnswer = { status: number; location: string; body: string };

/**
 * The 202 of a payment, made only from the request and its id: fields in a fixed order, metadata
 * sorted by name. The claim store keeps it and the ledger row can make it again, and both are the
 * same bytes.
 *
 * @throws for a version this code does not know, which is a bug of a deploy.
 */
export function renderAccepted(
  payment: Pick<AcceptedPayment, 'txnId' | 'responseVersion' | 'details'>,
): StoredAnswer {
  if (payment.responseVersion !== 1) {
    throw new Error(`response version ${payment.responseVersion} is not known here`);
  }
  const fields = {
    id: payment.txnId,
    object: 'payment',
    status: 'pending',
    ...asSent(payment.details),
  };
  return { status: 202, location: `/v1/payments/${payment.txnId}`, body: JSON.stringify(fields) };
}

/** The request's fields as the partner sent them, in the order in which every answer shows them. */
export function asSent(details: AcceptedPayment['details']): JsonObject {
  const { money, paymentMethod, reference, description, metadata } = details;
  // Filled in and not spread together: this is done several times for every payment.
  const sent: Record<string, JsonValue> = {
    amount: Number(money.amount),
    currency: money.currency,
  };
  if (paymentMethod !== undefined) sent['payment_method'] = paymentMethod;
  if (reference !== undefined) sent['reference'] = reference;
  if (description !== undefined) sent['description'] = description;
  if (metadata !== undefined) sent['metadata'] = sortedByName(metadata);
  return sent;
}

/**
 * Any order that the partner chose gives the same bytes. No name is `__proto__`: it was refused.
 */
function sortedByName(metadata: Readonly<Record<string, string>>): JsonObject {
  const sorted: Record<string, string> = {};
  for (const name of Object.keys(metadata).sort()) sorted[name] = metadata[name]!;
  return sorted;
}
