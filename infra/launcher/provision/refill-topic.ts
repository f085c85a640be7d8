import { loadSql } from '@triplock/postgres';
import type { Report } from '../session.ts';
import { withDatabase } from './database.ts';

const refill = loadSql(import.meta.url, 'refill-topic.sql');

/**
 * Has what a broker forgot published again, under the same event ids. The emulator keeps messages
 * in memory alone, so those that were published and not yet received are gone with its process.
 */
export async function refillTopic(ownerUrl: string, report: Report): Promise<void> {
  const events = await withDatabase(ownerUrl, (database) => database.query(refill));
  if (events.length > 0) report(`pubsub: ${events.length} events it had forgotten go out again`);
}
