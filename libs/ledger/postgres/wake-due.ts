import type { TxnId } from '@triplock/payments';
import { loadSql, type Database } from '@triplock/postgres';
import type { WakeDue } from '../unfinished.ts';

const wakeDueSql = loadSql(import.meta.url, 'wake-due.sql');
const reapSql = loadSql(import.meta.url, 'reap-provider-events.sql');

/** More than come in with one event, so that they become fewer. */
const reapedMax = 2;

type WakeRow = { waits: boolean; remembered: boolean; woken: TxnId[] };

/**
 * Wakes transactions of the ledger in PostgreSQL, as the role `triplock_ledger`. Each event that is
 * remembered takes old ones out with it, so that nobody else has to.
 */
export function wakeDueIn(database: Database): WakeDue {
  return ({ provider, eventId, type, intentId }, { graceMs }) =>
    database.transaction(async (tx) => {
      const parameters = [provider, eventId, type, intentId, graceMs];
      const [row] = await tx.query<WakeRow>(wakeDueSql, parameters);
      const { waits, remembered, woken } = row!;
      if (!waits) return { outcome: 'nothing-waits' };
      if (!remembered) return { outcome: 'duplicate' };
      await tx.query(reapSql, [reapedMax]);
      return { outcome: 'woken', txnIds: woken };
    });
}
