import type { OutboxEvent } from '@triplock/ledger';
import { isTracing, openSpan, untracedSpan, type OpenSpan } from '@triplock/runtime';
import type { PublishOutcome } from '@triplock/transport';

/** An event and the span in which it leaves; the row says what its message carries on. */
export type FollowedEvent = { row: OutboxEvent; span: OpenSpan };

/** Opens the span of one event, in the trace of the work that wrote it into the outbox. */
export function followEvent(row: OutboxEvent): FollowedEvent {
  if (!isTracing()) return { row, span: untracedSpan };
  const span = openSpan({
    name: 'publish outbox event',
    kind: 'producer',
    parent: row.traceparent,
    attributes: {
      'messaging.system': 'gcp_pubsub',
      'messaging.operation.type': 'send',
      'messaging.operation.name': 'publish',
      'triplock.txn_id': row.subject,
      'triplock.event_id': row.id,
    },
  });
  return { row: { ...row, traceparent: span.carried(row.traceparent) }, span };
}

/** Ends the spans with what came of each event. */
export async function endPublished(
  followed: readonly FollowedEvent[],
  outcomes: readonly PublishOutcome[],
): Promise<void> {
  if (!isTracing()) return;
  await Promise.all(followed.map(({ span }, n) => span.run(async () => outcomes[n])));
}
