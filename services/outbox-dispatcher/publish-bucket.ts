import type { PaymentEventAttributes } from '@triplock/contracts';
import type { BucketLease, Outbox, OutboxEvent } from '@triplock/ledger';
import { inBatchSpan, type CrashPoints, type Logger } from '@triplock/runtime';
import type { OutgoingMessage, Publisher, PublishOutcome } from '@triplock/transport';
import { endPublished, followEvent, type FollowedEvent } from './follow-event.ts';
import type { DispatcherMetrics } from './metrics.ts';

/** What publishing stands on. */
export type PublishParts = {
  outbox: Pick<Outbox, 'markPublished' | 'park'>;
  publisher: Pick<Publisher, 'publishInOrder'>;
  metrics: DispatcherMetrics;
  crashPoints: Pick<CrashPoints, 'reached'>;
  logger: Logger;
};

/** What came of one bucket's rows. `failure`: why some still wait. */
export type BucketOutcome = { done: number; failure?: Error };

/**
 * Publishes a bucket's rows in order and marks those that Pub/Sub has acknowledged.
 *
 * A crash between the ack and the mark leaves published rows pending: the next dispatcher to hold
 * the bucket publishes them again under the same event ids, which every inbox knows. After a
 * failure nothing later in the bucket is sent, so the order holds; the rows stay pending.
 */
export async function publishBucket(
  parts: PublishParts,
  { lease, rows }: { lease: BucketLease; rows: readonly OutboxEvent[] },
): Promise<BucketOutcome> {
  const followed = rows.map(followEvent);
  try {
    const of = () => followed.map(({ row }) => row.traceparent);
    return await inBatchSpan({ name: 'publish bucket', of }, () =>
      publishFollowed(parts, lease, followed),
    );
  } catch (error) {
    for (const { span } of followed) span.fail(error);
    throw error;
  }
}

async function publishFollowed(
  parts: PublishParts,
  lease: BucketLease,
  followed: readonly FollowedEvent[],
): Promise<BucketOutcome> {
  const rows = followed.map(({ row }) => row);
  const end = parts.metrics.publishSeconds.start();
  const outcomes = await parts.publisher.publishInOrder(rows.map(messageOf));
  await endPublished(followed, outcomes);
  const published = countPublished(outcomes);
  end(outcomes[published]?.outcome ?? 'published');
  if (published > 0) await mark(parts, { lease, rows: rows.slice(0, published) });

  const stopped = outcomes[published];
  switch (stopped?.outcome) {
    case undefined:
    case 'published':
      return { done: published };
    case 'unknown':
      parts.metrics.events.count('unknown', rows.length - published);
      return { done: published, failure: stopped.error };
    case 'unpublishable': {
      const row = rows[published]!;
      return { done: published + (await park(parts, { lease, row, error: stopped.error })) };
    }
    default:
      return stopped satisfies never;
  }
}

function messageOf(row: OutboxEvent): OutgoingMessage {
  const attributes: PaymentEventAttributes = {
    event_id: row.id,
    event_type: row.type,
    txn_id: row.subject,
    payment_id: row.orderingKey,
    ...(row.sequence === undefined ? {} : { sequence: String(row.sequence) }),
    traceparent: row.traceparent,
  };
  return { orderingKey: `bucket-${row.bucket}`, data: Buffer.from(row.payload), attributes };
}

function countPublished(outcomes: readonly PublishOutcome[]): number {
  const first = outcomes.findIndex(({ outcome }) => outcome !== 'published');
  return first === -1 ? outcomes.length : first;
}

async function mark(
  { outbox, metrics, crashPoints, logger }: PublishParts,
  { lease, rows }: { lease: BucketLease; rows: readonly OutboxEvent[] },
): Promise<void> {
  metrics.events.count('published', rows.length);
  await crashPoints.reached('dispatcher.published');
  const marked = await outbox.markPublished(
    lease,
    rows.map((row) => row.id),
  );
  await crashPoints.reached('dispatcher.marked');
  if (marked < rows.length) {
    metrics.unmarked.inc(rows.length - marked);
    const { bucket, epoch } = lease;
    logger.warn(
      { bucket, epoch: String(epoch), published: rows.length, marked },
      'the lease was lost before the mark: its next owner publishes these events again',
    );
  }
}

/** A message that Pub/Sub will never accept must not hold up its bucket: a person has to look. */
async function park(
  { outbox, metrics, logger }: PublishParts,
  poison: { lease: BucketLease; row: OutboxEvent; error: Error },
): Promise<number> {
  const { lease, row, error } = poison;
  const parked = await outbox.park(lease, { eventId: row.id, reason: error.message });
  metrics.events.count('parked', parked);
  logger.error(
    { err: error, eventId: row.id, txnId: row.subject, parked },
    'an event can never be published and was parked with the later events of its payment',
  );
  return parked;
}
