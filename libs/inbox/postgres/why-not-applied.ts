import { loadSql, type Queryable } from '@triplock/postgres';
import type { ReceivedEvent, ReceiveOutcome } from '../inbox.ts';

const recordAlteredCopy = loadSql(import.meta.url, 'record-altered-copy.sql');
const readCursor = loadSql(import.meta.url, 'read-cursor.sql');

/**
 * Why an event was not admitted: it is known, with these bytes or others, or its turn is still to
 * come. One that took effect so long ago that its inbox row has left is known by the cursor. When
 * the cursor has moved up to the event in the meantime it still counts as early: its next delivery
 * is in order.
 */
export async function whyNotApplied(
  { database, consumer }: { database: Queryable; consumer: string },
  { event, payloadHash }: ReceivedEvent,
): Promise<ReceiveOutcome> {
  const copy = [consumer, event.event_id, payloadHash];
  const [altered] = await database.query<{ known_hash: string }>(recordAlteredCopy, copy);
  if (altered !== undefined) return { outcome: 'altered', knownHash: altered.known_hash };
  // Without a sequence it is admitted at any time, unless it is known.
  if (event.sequence === undefined) return { outcome: 'duplicate' };
  const place = [consumer, event.payment_id];
  const [cursor] = await database.query<{ last_sequence: number }>(readCursor, place);
  const last = cursor?.last_sequence ?? 0;
  if (event.sequence <= last) return { outcome: 'duplicate' };
  return { outcome: 'early', expected: last + 1 };
}
