import { unavailable } from '@triplock/claims';
import { openDatabase } from '@triplock/postgres';
import { withDeadline, type Logger } from '@triplock/runtime';

/** How to reach the server; the time-out is for every step, connecting included, milliseconds. */
export type PostgresConnectionOptions = {
  url: string;
  applicationName: string;
  logger: Logger;
  answerTimeoutMs?: number;
  connectionsMax?: number;
};

/** Connections whose every error says that the outcome is unknown. */
export type PostgresConnection = {
  answerTimeoutMs: number;
  /** @throws ClaimsUnavailableError when the outcome is unknown. */
  rows<Row extends object>(statement: string, parameters: readonly unknown[]): Promise<Row[]>;
  /** The one row of a statement that is run again when it lost a race and gave none. */
  row<Row extends object>(statement: string, parameters: readonly unknown[]): Promise<Row>;
  close(): Promise<void>;
};

// A statement that lost a race sees the winner the next time. It loses again only to a claim that
// is taken over or expires in that very moment.
const racesMax = 5;

/** Opens a pool that comes back by itself. PostgreSQL may be away. */
export function connectPostgres(options: PostgresConnectionOptions): PostgresConnection {
  const { url, applicationName, logger, answerTimeoutMs = 1_500 } = options;
  const database = openDatabase({
    url,
    applicationName,
    ...(options.connectionsMax !== undefined && { connectionsMax: options.connectionsMax }),
    connectTimeoutMs: answerTimeoutMs,
    // Also ends at the server what nobody here waits for any more.
    statementTimeoutMs: answerTimeoutMs,
    // Planning a claim takes many times as long as running it.
    statements: 'kept-prepared',
    // All of them look rows up by key. A plan that is kept from when a table was small would read
    // the whole of it once it is large.
    onConnect: (session) => session.query('SET enable_seqscan = off'),
    onIdleError: (err) => logger.warn({ err }, 'an idle connection of the claims broke'),
  });
  const inTime = <Result>(work: Promise<Result>): Promise<Result> =>
    withDeadline(work, { ms: answerTimeoutMs, what: 'PostgreSQL' }).catch((error: unknown) =>
      Promise.reject(unavailable(error)),
    );

  async function runUntilDecided<Row extends object>(
    statement: string,
    parameters: readonly unknown[],
  ): Promise<Row> {
    for (let race = 0; race < racesMax; race += 1) {
      const [row] = await database.query<Row>(statement, parameters);
      if (row !== undefined) return row;
    }
    throw new Error(`lost ${racesMax} races in a row`);
  }

  return {
    answerTimeoutMs,
    rows: <Row extends object>(statement: string, parameters: readonly unknown[]) =>
      inTime(database.query<Row>(statement, parameters)),
    row: <Row extends object>(statement: string, parameters: readonly unknown[]) =>
      inTime(runUntilDecided<Row>(statement, parameters)),
    close: () => database.close(),
  };
}
