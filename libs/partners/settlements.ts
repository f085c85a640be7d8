import type { PartnerId, TransactionKind, TxnId } from '@triplock/payments';
import { loadStatements, type Queryable } from '@triplock/postgres';

const sql = loadStatements(import.meta.url, 'postgres/settlements.sql', [
  'listSettlements',
  'sumSettlements',
  'listLines',
  'hasLine',
  'readStatement',
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

/** What a day did to a partner's account in one currency, in minor units. */
export type Statement = {
  currency: string;
  /** What all days before came to. */
  opening: bigint;
  /** Together what was settled on one day, which is this one but for what was late. */
  entries: { kind: TransactionKind; settledOn: string; count: bigint; amount: bigint }[];
};

/** A partner's statements of a day, by currency; none before anything was settled. */
export type StatementDay = { statements: Statement[]; isClosed: boolean };

/** Settlement batches as partners see them. Rejects when PostgreSQL cannot be reached. */
export type Settlements = {
  ofDay(day: { partnerId: PartnerId; date: string }): Promise<SettlementDay>;
  /** What all of a partner's batches come to, by currency. */
  sums(whose: { partnerId: PartnerId }): Promise<SettlementSums[]>;
  lines(question: LineQuestion): Promise<LinePage>;
  /** Reads every line of the day once; of a day that is closed it is always the same. */
  statement(day: { partnerId: PartnerId; date: string }): Promise<StatementDay>;
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
    async statement({ partnerId, date }) {
      const rows = await database.query<StatementRow>(sql.readStatement, [partnerId, date]);
      const currencies = Map.groupBy(rows, ({ currency }) => currency);
      const statements = [...currencies].map(([currency, of]): Statement => {
        const entries = of.flatMap(({ kind, settledOn, count, amount }) =>
          kind === null ? [] : [{ kind, settledOn, count, amount }],
        );
        return { currency, opening: of[0]!.opening, entries };
      });
      return { statements, isClosed: rows[0]?.isClosed ?? false };
    },
  };
}

type DayRow = Pick<SettlementDay, 'isClosed' | 'completeThrough'> & {
  [Name in keyof SettlementBatch]: SettlementBatch[Name] | null;
};

/** `kind` is null in the row of a currency to which nothing came. */
type StatementRow = Pick<Statement, 'currency' | 'opening'> &
  Pick<StatementDay, 'isClosed'> &
  Omit<Statement['entries'][number], 'kind'> & { kind: TransactionKind | null };
