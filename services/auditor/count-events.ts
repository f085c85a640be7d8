import type { Queryable } from '@triplock/postgres';
import { inBatches, inBatchSpan } from '@triplock/runtime';
import { recordPublished, type Delivery, type SeenEvent } from './record-published.ts';

// Fewer and larger transactions cost less, and nobody waits for the audit's knowledge of an event.
const batchLimits = { apartMs: 50, itemsMax: 256 };

/** Counts deliveries of events, those that come together in one transaction. */
export function openEventCount(
  database: Queryable,
): (delivery: Delivery & { traceparent: string }) => Promise<SeenEvent> {
  return inBatches((deliveries) => {
    const of = () => deliveries.map(({ traceparent }) => traceparent);
    return inBatchSpan({ name: 'count events', of }, () => recordPublished(database, deliveries));
  }, batchLimits);
}
