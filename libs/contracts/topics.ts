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
