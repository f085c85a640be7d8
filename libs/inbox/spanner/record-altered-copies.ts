import type { EventId } from '@triplock/payments';
import { commitTimestamp, type SpannerTransaction } from '@triplock/spanner';

/** A copy of a known event with other bytes. */
export type AlteredCopy = { eventId: EventId; payloadHash: string; knownHash: string };

const seenSql = `
  SELECT event_id, payload_hash, copies FROM inbox_altered_copies
  WHERE consumer = @consumer AND event_id IN UNNEST(@eventIds)`;

/**
 * Keeps the hash of each altered copy, with how often it came: once too often, at the most, when a
 * commit had no answer.
 */
export async function recordAlteredCopies(
  tx: SpannerTransaction,
  consumer: string,
  altered: readonly AlteredCopy[],
): Promise<void> {
  if (altered.length === 0) return;
  type Row = { event_id: EventId; payload_hash: string; copies: bigint };
  const eventIds = altered.map(({ eventId }) => eventId);
  const seen = await tx.query<Row>(seenSql, { consumer, eventIds });
  for (const { eventId, payloadHash, knownHash } of altered) {
    const before = seen.find((row) => row.event_id === eventId && row.payload_hash === payloadHash);
    const key = { consumer, event_id: eventId, payload_hash: payloadHash };
    const now = { copies: (before?.copies ?? 0n) + 1n, last_seen: commitTimestamp };
    const first = { known_hash: knownHash, first_seen: commitTimestamp };
    tx.write(
      before === undefined
        ? { kind: 'insert', table: 'inbox_altered_copies', row: { ...key, ...now, ...first } }
        : { kind: 'update', table: 'inbox_altered_copies', row: { ...key, ...now } },
    );
  }
}
