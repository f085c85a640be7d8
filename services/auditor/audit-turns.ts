import { loadSql, type Queryable } from '@triplock/postgres';

const takeAuditTurn = loadSql(import.meta.url, 'sql/take-audit-turn.sql');
const endAuditTurn = loadSql(import.meta.url, 'sql/end-audit-turn.sql');
const readAuditTurn = loadSql(import.meta.url, 'sql/read-audit-turn.sql');

/** How many ids each check found. */
export type CountsByCheck = Readonly<Record<string, number>>;

/** What a scheduled audit came to. */
export type AuditFound = {
  tookMs: number;
  drift: CountsByCheck;
  inFlight: CountsByCheck;
  /** Since when the oldest of what is in flight has been so, by check, in the form of ISO 8601. */
  inFlightSince: Readonly<Record<string, string>>;
};

/** The last one, as all auditors show it; it has not ended before the first. */
export type ScheduledResult = AuditFound & { endedAt: Date | null };

/** The turns of the scheduled audit, which every auditor on one database shares. */
export type AuditTurns = {
  /** The number of the turn; `undefined` when the audit is not due or somebody else has it. */
  take(): Promise<bigint | undefined>;
  /** Of a turn that was overtaken only the time that it took is kept. */
  end(turn: bigint, found: AuditFound): Promise<void>;
  last(): Promise<ScheduledResult>;
};

// The audit reads whole tables. As they grow it comes less often and stays a tenth of the load.
const restFactor = 9;

/**
 * Turns that come every `everyMs`, or less often when an audit takes long. Clocks are the
 * database's.
 */
export function openAuditTurns(database: Queryable, everyMs: number): AuditTurns {
  return {
    async take() {
      const [row] = await database.query<{ turn: bigint }>(takeAuditTurn, [everyMs, restFactor]);
      return row?.turn;
    },
    async end(turn, { tookMs, drift, inFlight, inFlightSince }) {
      const found = [drift, inFlight, inFlightSince].map((each) => JSON.stringify(each));
      await database.query(endAuditTurn, [turn, Math.round(tookMs), restFactor, ...found]);
    },
    async last() {
      const [row] = await database.query<ScheduledResult>(readAuditTurn);
      return row!;
    },
  };
}
