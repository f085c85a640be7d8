import type { PartnerId } from '@triplock/payments';
import { loadStatements, type Queryable } from '@triplock/postgres';

const sql = loadStatements(import.meta.url, 'postgres/settlements.sql', ['listSettlements']);

/** What a partner is owed of one UTC day in one currency, in minor units. */
export type SettlementBatch = {
  /** `yyyy-mm-dd`. */
  date: string;
  currency: string;
  gross: bigint;
  refunds: bigint;
  /** Below zero on a day on which more was refunded than paid. */
  net: bigint;
  payments: bigint;
  refundCount: bigint;
};

/** Settlement batches as partners see them. Rejects when PostgreSQL cannot be reached. */
export type Settlements = {
  /** A partner's batches of a day by currency; none when nothing succeeded on it. */
  ofDay(day: { partnerId: PartnerId; date: string }): Promise<SettlementBatch[]>;
};

/** Settlement batches in PostgreSQL, where the settlement feed adds them up. */
export function openSettlements(database: Queryable): Settlements {
  return {
    ofDay: ({ partnerId, date }) =>
      database.query<SettlementBatch>(sql.listSettlements, [partnerId, date]),
  };
}
