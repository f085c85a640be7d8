import { loadSql, type Queryable } from '@triplock/postgres';
import type { SettlementBatch, Settlements } from '../settlements.ts';

const listSettlements = loadSql(import.meta.url, 'list-settlements.sql');

/** Settlement batches in PostgreSQL, where the settlement feed adds them up. */
export function openSettlements(database: Queryable): Settlements {
  return {
    ofDay: ({ partnerId, date }) =>
      database.query<SettlementBatch>(listSettlements, [partnerId, date]),
  };
}
