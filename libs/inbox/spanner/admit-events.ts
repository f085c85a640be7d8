import type { EventId, TxnId } from '@triplock/payments';
import { commitTimestamp, type SpannerTransaction, type Write } from '@triplock/spanner';
import type { Effect, ReceivedEvent, ReceiveOutcome } from '../inbox.ts';
import type { Outcomes } from '../receive-in-rounds.ts';
import { recordAlteredCopies, type AlteredCopy } from './record-altered-copies.ts';

/** Events of different payments, and what the consumer does with those that are in their turn. */
export type Admission = {
  consumer: string;
  round: readonly ReceivedEvent[];
  effect: Effect<SpannerTransaction>;
};

/**
 * Judges events within a transaction, remembers those in their turn, moves their cursors and has
 * the effect done with them. What is read is locked until the commit, the absence of a row
 * included, so of two who bring one event at once the second is aborted and then sees what the
 * first one did.
 */
export async function admitEvents(
  tx: SpannerTransaction,
  { consumer, round, effect }: Admission,
): Promise<Outcomes> {
  const known = await readKnown(tx, { consumer, round });
  const outcomes = round.map((each) => [each, judge(each, known)] as const);
  const inTurn = outcomes.flatMap(([each, { outcome }]) => (outcome === 'applied' ? [each] : []));
  await recordAlteredCopies(tx, consumer, outcomes.flatMap(alteredCopyOf));
  if (inTurn.length === 0) return outcomes;
  tx.write(
    ...inTurn.map((each) => rememberedRow(consumer, each)),
    ...inTurn.flatMap((each) => movedCursor(consumer, each)),
  );
  await effect(
    tx,
    inTurn.map(({ event }) => event),
  );
  return outcomes;
}

/** What the inbox has of some events and of their payments. */
type Known = {
  hashes: ReadonlyMap<EventId, string>;
  cursors: ReadonlyMap<TxnId, number>;
};

const knownSql = `
  SELECT event_id AS id, payload_hash, CAST(NULL AS INT64) AS last_sequence
  FROM inbox WHERE consumer = @consumer AND event_id IN UNNEST(@eventIds)
  UNION ALL
  SELECT payment_id, CAST(NULL AS STRING), last_sequence
  FROM inbox_cursors WHERE consumer = @consumer AND payment_id IN UNNEST(@paymentIds)`;

type KnownRow =
  | { id: EventId; payload_hash: string; last_sequence: null }
  | { id: TxnId; payload_hash: null; last_sequence: bigint };

/** By one statement, because each costs a round trip. */
async function readKnown(
  tx: SpannerTransaction,
  { consumer, round }: Pick<Admission, 'consumer' | 'round'>,
): Promise<Known> {
  const eventIds = round.map(({ event }) => event.event_id);
  const paymentIds = round.map(({ event }) => event.payment_id);
  const hashes = new Map<EventId, string>();
  const cursors = new Map<TxnId, number>();
  for (const row of await tx.query<KnownRow>(knownSql, { consumer, eventIds, paymentIds })) {
    if (row.payload_hash === null) cursors.set(row.id, Number(row.last_sequence));
    else hashes.set(row.id, row.payload_hash);
  }
  return { hashes, cursors };
}

/**
 * Whether it is the event's turn, and if not, why. One that took effect so long ago that its inbox
 * row has left is known by the cursor.
 */
function judge({ event, payloadHash }: ReceivedEvent, { hashes, cursors }: Known): ReceiveOutcome {
  const knownHash = hashes.get(event.event_id);
  if (knownHash !== undefined) {
    return knownHash === payloadHash ? { outcome: 'duplicate' } : { outcome: 'altered', knownHash };
  }
  if (event.sequence === undefined) return { outcome: 'applied' };
  // It would come early for ever: no payment has so many events, and the tables take none.
  if (event.sequence > sequenceMax) {
    return { outcome: 'unstorable', detail: `sequence ${event.sequence} is above ${sequenceMax}` };
  }
  const last = cursors.get(event.payment_id) ?? 0;
  if (event.sequence <= last) return { outcome: 'duplicate' };
  return event.sequence === last + 1
    ? { outcome: 'applied' }
    : { outcome: 'early', expected: last + 1 };
}

/** That of the inbox in PostgreSQL: what one refuses the other does. */
const sequenceMax = 2_147_483_647;

function alteredCopyOf([{ event, payloadHash }, judged]: Outcomes[number]): AlteredCopy[] {
  if (judged.outcome !== 'altered') return [];
  return [{ eventId: event.event_id, payloadHash, knownHash: judged.knownHash }];
}

function rememberedRow(consumer: string, { event, payloadHash }: ReceivedEvent): Write {
  const { event_id, payment_id, sequence } = event;
  const row = {
    ...{ consumer, event_id, payload_hash: payloadHash, payment_id },
    ...{ sequence: sequence ?? null, received_at: commitTimestamp },
    forgotten_from: sequence === undefined ? null : commitTimestamp,
  };
  return { kind: 'insert', table: 'inbox', row };
}

/**
 * An insert or an update by what was read, so that a cursor only ever begins at 1 and steps by one.
 */
function movedCursor(consumer: string, { event }: ReceivedEvent): Write[] {
  const { payment_id, sequence } = event;
  if (sequence === undefined) return [];
  const row = { consumer, payment_id, last_sequence: sequence };
  return [{ kind: sequence === 1 ? 'insert' : 'update', table: 'inbox_cursors', row }];
}
