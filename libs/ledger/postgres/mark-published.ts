import type { EventId } from '@triplock/payments';
import { loadSql, type Database } from '@triplock/postgres';
import type { PublishedMark } from '../mark-in-groups.ts';

const markPublishedSql = loadSql(import.meta.url, 'mark-published.sql');

/** Marks events of several buckets in one statement, and gives back those that it marked. */
export async function markPublished(
  database: Database,
  published: readonly PublishedMark[],
): Promise<EventId[]> {
  const rows = await database.query<{ event_id: EventId }>(markPublishedSql, [
    published.map((mark) => mark.eventId),
    published.map((mark) => mark.bucket),
    published.map((mark) => mark.epoch),
  ]);
  return rows.map((row) => row.event_id);
}
