/** What the server holds the statements and transactions of a session to; milliseconds. */
export type SessionLimits = {
  /** How long it works on one statement. */
  statementTimeoutMs: number;
  /** How long a transaction may stand still, with all the locks that it holds. */
  idleInTransactionMs: number;
  /** Whether it refuses every write. */
  readOnly: boolean;
};

/** The limits as a client asks for them at its start. */
export function startParameters(limits: SessionLimits) {
  return {
    statement_timeout: limits.statementTimeoutMs,
    idle_in_transaction_session_timeout: limits.idleInTransactionMs,
    ...(limits.readOnly && { options: '-c default_transaction_read_only=on' }),
  };
}

/** A connection that statements can be asked of. */
type Session = { query<Row extends object>(statement: string): Promise<Row[]> };

type InForce = { role: string; statement: number; idle: number; read_only: string };

// As texts they have units, `10s` or `5min`, which an interval knows.
const inForceSql = `
  SELECT current_user AS role,
    (extract(epoch FROM current_setting('statement_timeout')::interval) * 1000)::integer
      AS statement,
    (extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval)
      * 1000)::integer AS idle,
    current_setting('default_transaction_read_only') AS read_only`;

/** A session runs without the limits that were asked for. One sentence that says what to do. */
export class SessionLimitsError extends Error {
  override name = 'SessionLimitsError';
}

/**
 * Sees whether a session has the limits that its client asked for at its start. A pooler between
 * the two drops them: one that shares a server's session between clients, as PgBouncer does in
 * transaction mode, cannot pass on what one of them wants of it. A statement would then run for
 * ever, a client that stands still would keep its locks, and a reader could write. Who has to go
 * through one sets limits for the role; shorter ones than those asked for are as good.
 *
 * @throws SessionLimitsError when they are not in force.
 */
export async function requireLimits(session: Session, wanted: SessionLimits): Promise<void> {
  const [row] = (await session.query<InForce>(inForceSql)) as [InForce];
  const lacking = [
    ...lackingLimit('statement_timeout', row.statement, wanted.statementTimeoutMs),
    ...lackingLimit('idle_in_transaction_session_timeout', row.idle, wanted.idleInTransactionMs),
    ...(wanted.readOnly && row.read_only !== 'on'
      ? [{ name: 'default_transaction_read_only', is: row.read_only, set: 'on' }]
      : []),
  ];
  if (lacking.length === 0) return;
  const found = lacking.map(({ name, is }) => `${name} is ${is}`).join(', ');
  const settings = lacking.map(({ name, set }) => `ALTER ROLE ${row.role} SET ${name} = '${set}';`);
  throw new SessionLimitsError(
    `PostgreSQL does not hold this session to the limits that it was asked for (${found}): a pooler between may have dropped them. ` +
      `Connect to the server itself, or have the role hold them: ${settings.join(' ')} (docs/operating.md, "Poolers")`,
  );
}

/** 0 is no limit. */
function lackingLimit(name: string, inForceMs: number, wantedMs: number) {
  if (inForceMs > 0 && inForceMs <= wantedMs) return [];
  return [{ name, is: String(inForceMs), set: `${wantedMs}ms` }];
}
