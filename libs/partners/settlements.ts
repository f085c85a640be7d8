import type { PartnerId, TransactionKind, TxnId } from '@triplock/payments';
import { loadStatements, type Queryable } from '@triplock/postgres';

const sql = loadStatements(import.meta.url, 'postgres/settlements.sql', [
  'listSettlements',
  'sumSettlements',
  'listLines',
  'hasLine',
]);

/** What a partner is owed of one UTC day in one currency, in minor units. */
export type SettlementBatch = {
  currency: string;
  gross: bigint;
  refunds: bigint;
  /** Below zero on a day on which more was refunded than paid. */
  net: bigint;
  payments: bigint;
  refundCount: bigint;
};

/** A partner's batches of a day by currency; none when nothing succeeded on it. */
export type SettlementDay = {
  batches: SettlementBatch[];
  /** It never changes again: what comes late is in a later one. */
  isClosed: boolean;
  /**
   * All that was told before is in its batch: at most the end of the day. Null: nobody has looked
   * yet.
   */
  completeThrough: Date | null;
};

/** What all of a partner's days come to in one currency, in minor units. */
export type SettlementSums = {
  currency: string;
  /** Payments less refunds of the days that are closed; may be below zero. */
  settled: bigint;
  /** The same of the days that are open. */
  open: bigint;
  /** The refunds of all days. */
  refunds: bigint;
};

/** Which line: its day, `yyyy-mm-dd`, and its number. */
export type LineId = { day: string; lineId: bigint };

/** What one transaction adds to a batch. */
export type SettlementLine = LineId & {
  txnId: TxnId;
  kind: TransactionKind;
  currency: string;
  /** Minor units; below zero of what was given back. */
  amount: bigint;
  /** Of another day than the line's where that was closed when it came. */
  settledAt: Date;
};

/** Which lines to show. */
export type LineQuestion = {
  partnerId: PartnerId;
  limit: number;
  day?: string | undefined;
  currency?: string | undefined;
  /** The last line of the page before. */
  startingAfter?: LineId | undefined;
};

/** One page of lines: the newest day first, and of a day what was added last. */
export type LinePage =
  | { outcome: 'page'; lines: SettlementLine[]; more: boolean }
  /** `startingAfter` is no line of this partner. */
  | { outcome: 'unknown-cursor' };

/** Settlement batches as partners see them. Rejects when PostgreSQL cannot be reached. */
export type Settlements = {
  ofDay(day: { partnerId: PartnerId; date: string }): Promise<SettlementDay>;
  /** What all of a partner's batches come to, by currency. */
  sums(whose: { partnerId: PartnerId }): Promise<SettlementSums[]>;
  lines(question: LineQuestion): Promise<LinePage>;
};

/** Settlement batches in PostgreSQL, where they are added up as events come. */
export function openSettlements(database: Queryable): Settlements {
  return {
    async ofDay({ partnerId, date }) {
      const rows = await database.query<DayRow>(sql.listSettlements, [partnerId, date]);
      const { isClosed, completeThrough } = rows[0]!;
      const batches = rows.flatMap(({ isClosed: _, completeThrough: __, ...batch }) =>
        batch.currency === null ? [] : [batch as SettlementBatch],
      );
      return { batches, isClosed, completeThrough };
    },
    sums: ({ partnerId }) => database.query<SettlementSums>(sql.sumSettlements, [partnerId]),
    async lines({ partnerId, limit, day, currency, startingAfter: after }) {
      if (after !== undefined) {
        const cursor = [partnerId, after.day, after.lineId];
        const [known] = await database.query(sql.hasLine, cursor);
        if (known === undefined) return { outcome: 'unknown-cursor' };
      }
      // One more than is shown: then there are more.
      const asked = [partnerId, day, currency, limit + 1, after?.day, after?.lineId];
      const lines = await database.query<SettlementLine>(sql.listLines, asked);
      return { outcome: 'page', lines: lines.slice(0, limit), more: lines.length > limit };
    },
  };
}

type DayRow = Pick<SettlementDay, 'isClosed' | 'completeThrough'> & {
  [Name in keyof SettlementBatch]: SettlementBatch[Name] | null;
};
