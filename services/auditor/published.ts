import { logCopies, type EventAnswer, type ReceiveEvent } from '@triplock/consumer';
import type { PaymentEvent } from '@triplock/contracts';
import type { ReceivedEvent } from '@triplock/inbox';
import type { EventId } from '@triplock/payments';
import { databaseErrorKind, loadSql, type Queryable } from '@triplock/postgres';
import { inBatches, inBatchSpan, type Logger } from '@triplock/runtime';
import type { AuditorMetrics } from './metrics.ts';

const recordPublishedSql = loadSql(import.meta.url, 'published.sql');

/** An event as it was delivered. */
export type Delivery = ReceivedEvent<PaymentEvent>;

/** What a delivery of an event was to the auditor. */
export type SeenEvent =
  | { outcome: 'first' }
  | { outcome: 'copy'; copies: number }
  | { outcome: 'altered'; copies: number; knownHash: string }
  /** It reads like an event and yet the database will never take it. */
  | { outcome: 'unstorable'; detail: string };

// Fewer and larger transactions cost less, and nobody waits for the audit's knowledge of an event.
const batch = { apartMs: 250, itemsMax: 1_000 };

/** Counts each event of the auditor's own subscription, many of them by one statement. */
export function countPublished(
  database: Queryable,
  metrics: AuditorMetrics,
  logger: Logger,
): ReceiveEvent {
  const count = inBatches((deliveries: readonly Delivery[]) => {
    const of = () => deliveries.flatMap(({ traceparent }) => traceparent ?? []);
    return inBatchSpan({ name: 'count events', of }, async () => {
      const seen = await recordPublished(database, deliveries);
      const copies = deliveries.filter((_, n) => seen[n]!.outcome === 'copy');
      logCopies(logger, copies, 'events seen again');
      return seen;
    });
  }, batch);
  return async (event) => {
    const seen = await count(event);
    if (seen.outcome === 'unstorable') return { answer: 'unstorable', detail: seen.detail };
    metrics.events.count(seen.outcome);
    return report(logger, event, seen);
  };
}

function report(
  logger: Logger,
  { id: eventId, payload, payloadHash }: Delivery,
  seen: Exclude<SeenEvent, { outcome: 'unstorable' }>,
): EventAnswer {
  const facts = { eventId, txnId: payload.txn_id, ...seen };
  switch (seen.outcome) {
    case 'first':
      // The normal case: its row says more than a line would.
      logger.debug(facts, 'event seen');
      break;
    case 'copy':
      logger.debug(facts, 'event seen again');
      break;
    case 'altered':
      logger.error({ ...facts, payloadHash }, 'a copy of an event has different bytes');
      break;
    default:
      seen satisfies never;
  }
  return { answer: 'ack' };
}

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
  for (const copies of Map.groupBy(deliveries, ({ id }) => id).values()) {
    for (const [nth, copy] of copies.entries()) (rounds[nth] ??= []).push(copy);
  }
  return rounds;
}

type Row = { event_id: EventId; copies: number; known_hash: string };

async function recordRound(database: Queryable, round: readonly Delivery[]): Promise<SeenEvent[]> {
  const events = round.map(({ payload }) => payload);
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
    return round.map((delivery) => seenAs(delivery, known.get(delivery.id)!));
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
