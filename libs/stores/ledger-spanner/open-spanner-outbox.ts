import type { SpannerDatabase } from './spanner/open-spanner.ts';
import { markInBatches } from '@triplock/ledger';
import type { Outbox } from '@triplock/ledger';
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
    markPublished: markInBatches((published) => markPublished(database, published)),
    park: (lease, poison) => parkEvent(database, lease, poison),
    releaseBuckets: (owner) => releaseBuckets(database, owner),
    reap: (horizon) => reapOutbox(database, horizon),
    republish: (range) => republishEvents(database, range),
    pending: () => measurePending(database),
    ping: () => database.ping(),
    close: () => database.close(),
  };
}
