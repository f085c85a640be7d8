import type { PaymentEvent } from '@triplock/contracts';
import type { EventId } from '@triplock/payments';
import { databaseErrorKind, loadSql, type Queryable } from '@triplock/postgres';

const recordPublishedSql = loadSql(import.meta.url, 'sql/record-published.sql');

/** One delivery of an event. */
export type Delivery = { event: PaymentEvent; payloadHash: string };

/** What a delivery of an event was to the auditor. */
export type SeenEvent =
  | { outcome: 'first' }
  | { outcome: 'copy'; copies: number }
  | { outcome: 'altered'; copies: number; knownHash: string }
  /** It reads like an event and yet the database will never take it. */
  | { outcome: 'unstorable'; detail: string };

/**
 * Counts deliveries and says what each was, in the order given. It keeps no inbox: counting a
 * redelivery twice does no harm, and copies are what is to be counted.
 *
 * @throws when the database is away; some of them may be counted then.
 */
export async function recordPublished(
  database: Queryable,
  given: readonly Delivery[],
): Promise<SeenEvent[]> {
  // The same object given twice is two deliveries, each with an outcome of its own.
  const deliveries = given.map((each) => ({ ...each }));
  const seen = new Map<Delivery, SeenEvent>();
  for (const round of roundsOf(deliveries)) {
    const outcomes = await recordRound(database, round);
    for (const [at, delivery] of round.entries()) seen.set(delivery, outcomes[at]!);
  }
  return deliveries.map((each) => seen.get(each)!);
}

/** A statement counts an event once: a copy of an event is in a later round. */
function roundsOf(deliveries: readonly Delivery[]): Delivery[][] {
  const rounds: Delivery[][] = [];
  for (const copies of Map.groupBy(deliveries, ({ event }) => event.event_id).values()) {
    for (const [nth, copy] of copies.entries()) (rounds[nth] ??= []).push(copy);
  }
  return rounds;
}

type Row = { event_id: EventId; copies: number; known_hash: string };

async function recordRound(database: Queryable, round: readonly Delivery[]): Promise<SeenEvent[]> {
  const events = round.map(({ event }) => event);
  try {
    const rows = await database.query<Row>(recordPublishedSql, [
      events.map(({ event_id }) => event_id),
      events.map(({ type }) => type),
      events.map(({ txn_id }) => txn_id),
      events.map(({ payment_id }) => payment_id),
      events.map(({ partner_id }) => partner_id),
      events.map(({ sequence }) => sequence ?? null),
      round.map(({ payloadHash }) => payloadHash),
      events.map(({ data }) => data['currency'] ?? null),
      events.map(({ data }) => data['amount'] ?? null),
    ]);
    const known = new Map(rows.map((row) => [row.event_id, row]));
    return round.map((delivery) => seenAs(delivery, known.get(delivery.event.event_id)!));
  } catch (error) {
    if (databaseErrorKind(error) !== 'data') throw error;
    if (round.length === 1) return [{ outcome: 'unstorable', detail: (error as Error).message }];
    // Nothing of the round was counted; only what is to blame fails again.
    const outcomes = [];
    for (const each of round) outcomes.push(...(await recordRound(database, [each])));
    return outcomes;
  }
}

function seenAs({ payloadHash }: Delivery, { copies, known_hash: knownHash }: Row): SeenEvent {
  if (knownHash !== payloadHash) return { outcome: 'altered', copies, knownHash };
  return copies === 1 ? { outcome: 'first' } : { outcome: 'copy', copies };
}
