import type { Inbox } from '@triplock/inbox';
import { loadSql, type Queryable } from '@triplock/postgres';
import type { Logger, Pass } from '@triplock/runtime';
import { whyTooShort, type Sources } from './check-retention.ts';
import type { NotifierMetrics } from './metrics.ts';

const reapDeliveriesSql = loadSql(import.meta.url, 'sql/reap-deliveries.sql');

/** So few that a batch is done in some milliseconds and holds up no event. */
const batchRowsMax = 500;
const hourMs = 3_600_000;

/** An event may be received before the outbox has it as published: its inbox row is older. */
const markedLateMs = hourMs;

/** What the reapers stand on, and for how long they keep what is done with. */
export type ReaperParts = {
  inbox: Pick<Inbox, 'reap'>;
  database: Queryable;
  metrics: Pick<NotifierMetrics, 'reaped'>;
  keepInboxHours: number;
  keepDeliveriesMs: number;
  /** What can bring an event again; asked on each pass, because dispatchers may change. */
  sources: () => Promise<Sources>;
  logger: Logger;
};

/**
 * A pass over both: one small batch of inbox rows and one of delivered webhooks that are older than
 * they are kept. The loop comes again at once while there is more. The inbox forgets nothing while
 * something would outlive it or the outbox does not tell, and no event that the outbox still has.
 */
export function reapNotified(parts: ReaperParts): Pass {
  const { database, metrics } = parts;
  return async () => {
    const events = await reapInbox(parts);
    metrics.reaped.inc({ what: 'inbox' }, events);
    const deliveries = await reapDeliveries(database, parts.keepDeliveriesMs);
    metrics.reaped.inc({ what: 'deliveries' }, deliveries);
    return events + deliveries;
  };
}

async function reapInbox({ inbox, keepInboxHours, ...parts }: ReaperParts): Promise<number> {
  const sources = await parts.sources();
  const { outbox } = sources;
  if (outbox.outcome === 'unknown') {
    const { why } = outbox;
    parts.logger.warn({ why }, 'the inbox forgets nothing for now: the outbox does not tell');
    return 0;
  }
  const problem = whyTooShort(keepInboxHours, sources);
  if (problem !== undefined) {
    const message = 'the inbox forgets nothing for now: something would outlive it';
    parts.logger.error({ problem }, message);
    return 0;
  }
  const keepMs = Math.max(keepInboxHours * hourMs, outbox.oldestMs + markedLateMs);
  return inbox.reap({ keepMs, rowsMax: batchRowsMax });
}

/**
 * Takes out a batch of webhooks that were delivered longer than `keepMs` ago. One that waits or was
 * given up stays.
 */
async function reapDeliveries(database: Queryable, keepMs: number): Promise<number> {
  const parameters = [keepMs, batchRowsMax];
  const [row] = await database.query<{ reaped: number }>(reapDeliveriesSql, parameters);
  return row!.reaped;
}
