import type { EventId } from '@triplock/payments';
import { loadSql, type Database } from '@triplock/postgres';
import type { BucketLease, Outbox } from '../outbox.ts';

const markPublishedSql = loadSql(import.meta.url, 'mark-published.sql');

type Mark = {
  lease: BucketLease;
  eventIds: readonly EventId[];
  resolve(marked: number): void;
  reject(error: unknown): void;
};

/**
 * Marks by `Outbox.markPublished`'s contract, in groups: a dispatcher marks each bucket when its
 * publish is acknowledged, and a commit per bucket would cost more than all the marking. While one
 * statement is under way, marks gather for the next.
 */
export function markInGroups(database: Database): Outbox['markPublished'] {
  let gathered: Mark[] = [];
  let underWay = false;

  async function markGathered(): Promise<void> {
    underWay = true;
    while (gathered.length > 0) {
      const group = gathered;
      gathered = [];
      await markGroup(database, group);
    }
    underWay = false;
  }

  return (lease, eventIds) => {
    if (eventIds.length === 0) return Promise.resolve(0);
    return new Promise((resolve, reject) => {
      gathered.push({ lease, eventIds, resolve, reject });
      if (!underWay) void markGathered();
    });
  };
}

async function markGroup(database: Database, group: readonly Mark[]): Promise<void> {
  const published = group.flatMap(({ lease, eventIds }) =>
    eventIds.map((eventId) => ({ ...lease, eventId })),
  );
  try {
    const rows = await database.query<{ event_id: EventId }>(markPublishedSql, [
      published.map((mark) => mark.eventId),
      published.map((mark) => mark.bucket),
      published.map((mark) => mark.epoch),
    ]);
    const marked = new Set(rows.map((row) => row.event_id));
    // Deleting counts an id once, also when two marks of the group name it.
    for (const mark of group) mark.resolve(mark.eventIds.filter((id) => marked.delete(id)).length);
  } catch (error) {
    for (const mark of group) mark.reject(error);
  }
}
