import { loadSql, type Database, type Queryable } from '@triplock/postgres';
import type { Inbox, ReceivedEvent, ReceiveOutcome } from '../inbox.ts';

const admitEvent = loadSql(import.meta.url, 'admit-event.sql');
const recordAlteredCopy = loadSql(import.meta.url, 'record-altered-copy.sql');
const reapSql = loadSql(import.meta.url, 'reap.sql');
const readCursor = loadSql(import.meta.url, 'read-cursor.sql');

/** Leaves the transaction so that it rolls back: the event was remembered, but it is not its turn. */
class OutOfTurn extends Error {
  override name = 'OutOfTurn';
}

/**
 * A consumer's inbox in the schema that the database's role works in. `consumer` is part of every
 * key, so two consumers of one schema do not see each other.
 */
export function openInbox(database: Database, consumer: string): Inbox {
  return {
    async receive(received, effect) {
      try {
        return await database.transaction(async (tx): Promise<ReceiveOutcome> => {
          const admission = await admit(tx, { consumer, received });
          if (!admission.remembered) return compareWithKnown(tx, { consumer, received });
          if (!admission.in_order) throw new OutOfTurn();
          await effect(tx, received.event);
          return { outcome: 'applied' };
        });
      } catch (error) {
        if (!(error instanceof OutOfTurn)) throw error;
        return whyOutOfTurn(database, { consumer, received });
      }
    },
    async reap({ keepMs, rowsMax }) {
      const parameters = [consumer, keepMs, rowsMax];
      const [row] = await database.query<{ reaped: number }>(reapSql, parameters);
      return row!.reaped;
    },
  };
}

type Receipt = { consumer: string; received: ReceivedEvent };

async function admit(
  tx: Queryable,
  { consumer, received: { event, payloadHash } }: Receipt,
): Promise<{ remembered: boolean; in_order: boolean }> {
  const { event_id: eventId, payment_id: paymentId, sequence = null } = event;
  const parameters = [consumer, eventId, payloadHash, paymentId, sequence];
  const [row] = await tx.query<{ remembered: boolean; in_order: boolean }>(admitEvent, parameters);
  return row!;
}

async function compareWithKnown(
  tx: Queryable,
  { consumer, received }: Receipt,
): Promise<ReceiveOutcome> {
  const [altered] = await tx.query<{ known_hash: string }>(recordAlteredCopy, [
    consumer,
    received.event.event_id,
    received.payloadHash,
  ]);
  if (altered === undefined) return { outcome: 'duplicate' };
  return { outcome: 'altered', knownHash: altered.known_hash };
}

/**
 * An event that was not remembered although its sequence is behind the cursor took effect so long
 * ago that its inbox row has left. When the cursor has moved up to the event in the meantime it
 * still counts as early: its next delivery is in order.
 */
async function whyOutOfTurn(
  database: Queryable,
  { consumer, received: { event } }: Receipt,
): Promise<ReceiveOutcome> {
  const rows = await database.query<{ last_sequence: number }>(readCursor, [
    consumer,
    event.payment_id,
  ]);
  const last = rows[0]?.last_sequence ?? 0;
  if (event.sequence !== undefined && event.sequence <= last) return { outcome: 'duplicate' };
  return { outcome: 'early', expected: last + 1 };
}
