import type { TxnId } from '@triplock/payments';

/** The names of what crosses a broker. A change of form gets a new version and a new name. */
export const topics = {
  /** Kafka: payments as the gateway accepted them, keyed by their payment's id. */
  accepted: 'payments.accepted.v1',
  /** Kafka: records that can never be posted, with their original bytes. */
  deadLetter: 'payments.dead-letter.v1',
  /** Pub/Sub: events of the ledger, ordered by bucket. */
  events: 'payment-events.v1',
} as const;

/** Ordering keys of the events topic, outbox leases and warm markers: 64 buckets each. */
export const bucketCount = 64;

/**
 * How long a claim is kept from the first request on, in every store, milliseconds: partners are
 * promised that a retry is answered for so long. What retries are answered about has to be kept for
 * longer.
 */
export const claimLifeMs = 86_400_000;

const traceForm = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/**
 * The `traceparent` (W3C Trace Context, version 00) that a message came with, or one made from its
 * transaction's id when it has none that can be used: a broken trace never refuses a payment.
 */
export function traceparentOf(received: string | undefined, txnId: TxnId): string {
  if (received !== undefined && traceForm.test(received)) return received;
  const hex = txnId.replaceAll('-', '');
  return `00-${hex}-${hex.slice(16)}-00`;
}
