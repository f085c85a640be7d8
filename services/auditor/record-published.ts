import type { PaymentEvent } from '@triplock/contracts';
import { loadSql, type Queryable } from '@triplock/postgres';

const recordPublishedSql = loadSql(import.meta.url, 'sql/record-published.sql');

/** What a delivery of an event was to the auditor. */
export type SeenEvent =
  | { outcome: 'first' }
  | { outcome: 'copy'; copies: number }
  | { outcome: 'altered'; copies: number; knownHash: string };

/**
 * Counts one delivery. It keeps no inbox: counting a redelivery twice does no harm, and copies are
 * what is to be counted.
 */
export async function recordPublished(
  database: Queryable,
  { event, payloadHash }: { event: PaymentEvent; payloadHash: string },
): Promise<SeenEvent> {
  const [row] = await database.query<{ copies: number; known_hash: string }>(recordPublishedSql, [
    event.event_id,
    event.type,
    event.txn_id,
    event.payment_id,
    event.partner_id,
    event.sequence ?? null,
    payloadHash,
    event.data['currency'] ?? null,
    event.data['amount'] ?? null,
  ]);
  const { copies, known_hash: knownHash } = row!;
  if (knownHash !== payloadHash) return { outcome: 'altered', copies, knownHash };
  return copies === 1 ? { outcome: 'first' } : { outcome: 'copy', copies };
}
