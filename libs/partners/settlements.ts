import type { PartnerId } from '@triplock/payments';
import { loadStatements, type Queryable } from '@triplock/postgres';

const sql = loadStatements(import.meta.url, 'postgres/settlements.sql', [
  'listSettlements',
  'sumSettlements',
]);

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

/** What all of a partner's days come to in one currency, in minor units. */
export type SettlementSums = {
  currency: string;
  /** Payments less refunds of the days before today; may be below zero. */
  settled: bigint;
  /** The same of today, and of days that a clock ahead began. */
  open: bigint;
  /** The refunds of all days. */
  refunds: bigint;
};

/** Settlement batches as partners see them. Rejects when PostgreSQL cannot be reached. */
export type Settlements = {
  /** A partner's batches of a day by currency; none when nothing succeeded on it. */
  ofDay(day: { partnerId: PartnerId; date: string }): Promise<SettlementBatch[]>;
  /** What all of a partner's batches come to, by currency; `today` is the day that is not over. */
  sums(whose: { partnerId: PartnerId; today: string }): Promise<SettlementSums[]>;
};

/** Settlement batches in PostgreSQL, where they are added up as events come. */
export function openSettlements(database: Queryable): Settlements {
  return {
    ofDay: ({ partnerId, date }) =>
      database.query<SettlementBatch>(sql.listSettlements, [partnerId, date]),
    sums: ({ partnerId, today }) =>
      database.query<SettlementSums>(sql.sumSettlements, [partnerId, today]),
  };
}
