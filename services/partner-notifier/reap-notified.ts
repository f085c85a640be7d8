import { loadSql, type Queryable } from '@triplock/postgres';
import type { Pass } from '@triplock/runtime';
import type { NotifierMetrics } from './metrics.ts';

const reapDeliveriesSql = loadSql(import.meta.url, 'sql/reap-deliveries.sql');

/** So few that a batch is done in some milliseconds and holds up no event. */
const batchRowsMax = 500;

/** What the reapers stand on, and for how long they keep what is done with. */
export type ReaperParts = {
  /** One batch of the inbox. */
  reapInbox: Pass;
  database: Queryable;
  metrics: Pick<NotifierMetrics, 'reaped'>;
  keepDeliveriesMs: number;
};

/**
 * A pass over both: one small batch of inbox rows and one of delivered webhooks that are older than
 * they are kept. The loop comes again at once while there is more.
 */
export function reapNotified(parts: ReaperParts): Pass {
  const { reapInbox, database, metrics } = parts;
  return async () => {
    const events = await reapInbox();
    metrics.reaped.count('inbox', events);
    const deliveries = await reapDeliveries(database, parts.keepDeliveriesMs);
    metrics.reaped.count('deliveries', deliveries);
    return events + deliveries;
  };
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
