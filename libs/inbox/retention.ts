import { databaseErrorKind, type Queryable } from '@triplock/postgres';
import type { Logger, Pass } from '@triplock/runtime';
import type { Inbox } from './inbox.ts';

// Milliseconds; the second is 0 when the outbox is empty. No row: no dispatcher has said yet.
const outboxKept = `
  SELECT (extract(epoch FROM kept_for) * 1000)::float8 AS kept_ms,
    coalesce(extract(epoch FROM oldest) * 1000, 0)::float8 AS oldest_ms
  FROM ledger.outbox_kept() WHERE kept_for IS NOT NULL`;

const hourMs = 3_600_000;
/** So few that a batch is done in some milliseconds and holds up no event. */
const batchRowsMax = 500;
/** An event may be received before the outbox has it as published: its inbox row is older. */
const markedLateMs = hourMs;

/** For how long messages can come again to a subscription, or why that is unknown. */
type SubscriptionRetention =
  { outcome: 'known'; retentionMs: number } | { outcome: 'unknown'; why: string };

/**
 * For how long a published event can be republished, or why that is not known: as it is set, and
 * the age of the oldest event that is there (0: there is none). A shorter setting takes a while to
 * come true.
 */
type OutboxRetention =
  { outcome: 'known'; retentionMs: number; oldestMs: number } | { outcome: 'unknown'; why: string };

/** What can bring an event again, and for how long. */
type Sources = { subscription: SubscriptionRetention; outbox: OutboxRetention };

/** What a consumer's inbox is reaped by. */
export type InboxRetention = {
  inbox: Inbox;
  /** In which the dispatchers say how long they keep events. */
  database: Queryable;
  keepHours: number;
  /** For how long the consumer's subscription can deliver an event again. */
  subscription: SubscriptionRetention;
  logger: Logger;
};

/**
 * Makes sure that the inbox outlives everything that can bring an event again, and gives the pass
 * that forgets. The outbox is asked again on each pass, because dispatchers may change.
 *
 * @throws with one sentence when something outlives the inbox, or when the role may not ask the
 * outbox: the service must not run so.
 */
export async function openInboxReaper(retention: InboxRetention): Promise<Pass> {
  const { database, subscription, keepHours, logger } = retention;
  const sources = async () => ({ subscription, outbox: await readOutboxRetention(database) });
  checkRetention(keepHours, await sources(), logger);
  return async () => reapInbox(retention, await sources());
}

/**
 * Removes one small batch of inbox rows that are older than they are kept, and returns how many.
 * The inbox forgets nothing while something would outlive it or the outbox does not tell, and no
 * event that the outbox still has.
 */
async function reapInbox(
  { inbox, keepHours, logger }: InboxRetention,
  sources: Sources,
): Promise<number> {
  const { outbox } = sources;
  if (outbox.outcome === 'unknown') {
    const { why } = outbox;
    logger.warn({ why }, 'the inbox forgets nothing for now: the outbox reports no retention');
    return 0;
  }
  const problem = whyTooShort(keepHours, sources);
  if (problem !== undefined) {
    logger.error(
      { problem },
      'the inbox forgets nothing for now: events could come again after it forgot them',
    );
    return 0;
  }
  const keepMs = Math.max(keepHours * hourMs, outbox.oldestMs + markedLateMs);
  return inbox.reap({ keepMs, rowsMax: batchRowsMax });
}

/**
 * Compares how long the inbox remembers with everything that can bring an event again: Pub/Sub's
 * retention and a republish from the outbox. The cursors would still keep a late copy from having
 * an effect; what would be lost is that an altered copy can be distinguished from a true one.
 *
 * @throws with one sentence when something outlives the inbox: the service must not run so.
 */
export function checkRetention(keepHours: number, sources: Sources, logger: Logger): void {
  const problem = whyTooShort(keepHours, sources);
  if (problem !== undefined) throw new Error(problem);
  const named = { 'Pub/Sub': sources.subscription, 'the outbox': sources.outbox };
  for (const [source, retention] of Object.entries(named)) {
    if (retention.outcome === 'known') continue;
    const { why } = retention;
    logger.warn({ why }, `${source} did not report its retention: not checked against the inbox`);
  }
}

/** In one sentence, what outlives the inbox; `undefined` when nothing that is known does. */
function whyTooShort(keepHours: number, { subscription, outbox }: Sources): string | undefined {
  const tooShort = (source: string, { retentionMs }: { retentionMs: number }) => {
    const hours = Math.ceil(retentionMs / hourMs);
    return hours > keepHours
      ? `INBOX_RETENTION_HOURS is ${keepHours} and ${source} for ${hours} hours: the inbox must remember an event for as long as it can come again`
      : undefined;
  };
  if (outbox.outcome === 'known') {
    const problem = tooShort("the dispatchers' OUTBOX_RETENTION_HOURS keep events", outbox);
    if (problem !== undefined) return problem;
  }
  if (subscription.outcome === 'known') {
    return tooShort('Pub/Sub can deliver events again', subscription);
  }
  return undefined;
}

/**
 * What the dispatchers keep, from where they say so; they may change it while this service runs.
 *
 * @throws when the database has no such function, or the role no right to it: asking again would
 * not help, and an inbox that never knows would never forget.
 */
async function readOutboxRetention(database: Queryable): Promise<OutboxRetention> {
  try {
    const [row] = await database.query<{ kept_ms: number; oldest_ms: number }>(outboxKept);
    if (row === undefined) return { outcome: 'unknown', why: 'no dispatcher has run yet' };
    return { outcome: 'known', retentionMs: row.kept_ms, oldestMs: row.oldest_ms };
  } catch (error) {
    if (databaseErrorKind(error) === 'bug') throw unreadable(error as Error);
    return { outcome: 'unknown', why: error instanceof Error ? error.message : String(error) };
  }
}

function unreadable(cause: Error): Error {
  return new Error(
    `for how long the outbox keeps events cannot be read (${cause.message}): grant the role EXECUTE on ledger.outbox_kept in one of the service's migrations`,
    { cause },
  );
}
