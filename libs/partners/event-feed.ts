import type { EventId, EventType, PartnerId, TxnId } from '@triplock/payments';
import { loadStatements, type Queryable } from '@triplock/postgres';

const sql = loadStatements(import.meta.url, 'postgres/events.sql', ['readEvents']);

/** An event as its webhook tells it. */
export type FedEvent = {
  eventId: EventId;
  position: bigint;
  /** The webhook's body, the same bytes: `{ type, timestamp, sequence?, data }`. */
  body: string;
};

/** Which events of a feed to read. */
export type FeedQuestion = {
  partnerId: PartnerId;
  /**
   * Those behind this position, or told since a time and in the minutes before it; else from the
   * first. Who does not name a position begins behind what left by age.
   */
  from?: { after: bigint } | { since: Date } | undefined;
  limit: number;
  type?: EventType | undefined;
  /** Those whose types begin so, as `payment`, or of this transaction. */
  of?: { object: string } | { txnId: TxnId } | undefined;
};

/** A part of a feed, in its order. */
export type FeedPage =
  | {
      outcome: 'page';
      events: FedEvent[];
      /** Where to go on, also when nothing came: nothing will ever be told before it. */
      next: bigint;
      more: boolean;
    }
  /** Some that came behind the position were removed by age. */
  | { outcome: 'expired' };

/** Partners' feeds. Rejects when PostgreSQL cannot be reached. */
export type EventFeed = {
  /**
   * Reads on. Who goes on from `next` reads every event once, however late it is told, and in each
   * payment's order. After PostgreSQL was set back, an event may come once more under its id.
   */
  read(question: FeedQuestion): Promise<FeedPage>;
};

/** Bytes of what the events of a page say: it ends before the one with which it would have more. */
export const feedBytesMax = 262_144;

// Where few match, this many are looked at for a page, and it goes on from there.
const lookedAtMax = 2_000;

/** Feeds in PostgreSQL: the first deliveries of the events, whoever gets them as webhooks. */
export function openEventFeed(database: Queryable): EventFeed {
  return {
    async read({ partnerId, from, limit, type, of }) {
      const start = startOf(from);
      const typeSays = type && `{"type":"${type}"`;
      const objectSays = of && 'object' in of ? `{"type":"${of.object}.` : undefined;
      const lookMax = (typeSays ?? objectSays) ? lookedAtMax : limit + 1;
      const isAnew = from === undefined || 'since' in from;
      const rows = await database.query<Row>(sql.readEvents, [
        ...[partnerId, start, limit, feedBytesMax],
        ...[typeSays, objectSays, lookMax, isAnew],
        of && 'txnId' in of ? of.txnId : null,
      ]);
      const { found, looked_at: lookedAt, looked_to: lookedTo } = rows[0]!;
      const { began_at: began, reaped_to: reapedTo } = rows[0]!;
      if (!isAnew && start < (reapedTo ?? 0n)) return { outcome: 'expired' };
      const events = rows.flatMap(({ event_id: eventId, position, body }) =>
        eventId === null ? [] : [{ eventId, position, body }],
      );
      const isCut = events.length < found;
      const last = events.at(-1)?.position ?? began;
      const next = isCut ? last : (lookedTo ?? last);
      return { outcome: 'page', events, next, more: isCut || lookedAt >= lookMax };
    },
  };
}

// For what is under way and for clocks that differ: what was told since then is behind it.
const sinceMarginMs = 300_000;

/** Positions are the microseconds at which they were taken, or a little more. */
function startOf(from: FeedQuestion['from']): bigint {
  if (from === undefined) return 0n;
  if ('after' in from) return from.after;
  const ms = Math.max(0, Math.min(from.since.getTime(), Date.now()) - sinceMarginMs);
  return BigInt(Math.floor(ms)) * 1_000n;
}

/** `event_id` is null in the row of a page that has none. */
type Row = Pick<FedEvent, 'position' | 'body'> & {
  event_id: EventId | null;
  found: number;
  looked_at: number;
  looked_to: bigint | null;
  began_at: bigint;
  reaped_to: bigint | null;
};
