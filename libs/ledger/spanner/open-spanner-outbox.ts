import type { SpannerDatabase } from '@triplock/spanner';
import { markInGroups } from '../mark-in-groups.ts';
import type { Outbox } from '../outbox.ts';
import { reapOutbox, republishEvents } from './keep-outbox.ts';
import { leaseBuckets, releaseBuckets } from './lease-buckets.ts';
import { measurePending } from './measure-pending.ts';
import { takeEvents } from './take-events.ts';
import { markPublished, parkEvent } from './write-outbox.ts';

/** The outbox in Cloud Spanner. Closing it closes the database's connection. */
export function openSpannerOutbox(database: SpannerDatabase): Outbox {
  return {
    leaseBuckets: (request) => leaseBuckets(database, request),
    take: (leases, rowsMax) => takeEvents(database, { leases, rowsMax }),
    markPublished: markInGroups((published) => markPublished(database, published)),
    park: (lease, poison) => parkEvent(database, lease, poison),
    releaseBuckets: (owner) => releaseBuckets(database, owner),
    reap: (horizon) => reapOutbox(database, horizon),
    republish: (range) => republishEvents(database, range),
    pending: () => measurePending(database),
    ping: () => database.ping(),
    close: () => database.close(),
  };
}
