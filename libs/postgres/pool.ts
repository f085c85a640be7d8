import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import type * as PgTracing from '@opentelemetry/instrumentation-pg';
import { isTracing } from '@triplock/runtime';
import pg from 'pg';
import { nameOfSql } from './load-sql.ts';
import { requireLimits, startParameters, type SessionLimits } from './session-limits.ts';

/** Rows come back as plain objects; `bigint` columns as JavaScript bigints, dates as Date. */
export type Queryable = {
  query<Row extends object>(statement: string, parameters?: readonly unknown[]): Promise<Row[]>;
};

/** A pool of connections to one database, as one role. */
export type Database = Queryable & {
  /** Runs `work` in one transaction (READ COMMITTED) and commits, or rolls back when it throws. */
  transaction<Result>(work: (tx: Queryable) => Promise<Result>): Promise<Result>;
  /**
   * Calls `heard` at each NOTIFY on the channel, and once when it has begun to listen, for whatever
   * was told before. It keeps a connection of the pool until `signal` aborts, and resolves then.
   * @throws when that connection is lost. A proxy that shares connections between transactions
   * passes nothing on, and says nothing of it: look by yourself too, if seldom.
   */
  listen(channel: string, heard: () => void, signal: AbortSignal): Promise<void>;
  /** Resolves when the database answers; throws when it does not. */
  ping(): Promise<void>;
  close(): Promise<void>;
};

/** How a pool behaves; times in milliseconds. */
export type DatabaseOptions = {
  url: string;
  /** Shown in `pg_stat_activity`. */
  applicationName: string;
  /** Connections at most; 8 by default, which keeps 12 replicas below PostgreSQL's usual 100. */
  connectionsMax?: number;
  /** How long getting a connection may take before the caller gets an error; 2 s by default. */
  connectTimeoutMs?: number;
  /** How long the server works on one statement; 10 s by default. */
  statementTimeoutMs?: number;
  /**
   * How long a transaction may wait for its next statement before the server ends its session, so
   * that a client that stands still keeps no lock for longer; 10 s by default.
   */
  idleInTransactionMs?: number;
  /** Has the server refuse every write by these connections, whatever their role may. */
  readOnly?: boolean;
  /**
   * Looks at each new connection before it is used, once it was seen to have the limits above. When
   * it rejects, the connection is closed and whoever needed it gets that error.
   */
  onConnect?: (session: Queryable) => Promise<unknown>;
  /**
   * Whether each connection plans a statement once and keeps the plan. For few statements that are
   * run often; not through a proxy that shares connections between transactions.
   */
  statements?: 'planned-each-time' | 'kept-prepared';
  /** Called for errors of idle connections, which nobody awaits. */
  onIdleError: (error: Error) => void;
};

// Amounts are int8: as numbers they would be rounded, as texts they would add up wrongly.
const int8Oid: number = pg.types.builtins.INT8;
const types: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary'): ((value: string) => unknown) =>
    oid === int8Oid ? BigInt : (pg.types.getTypeParser(oid, format) as (value: string) => unknown),
};

// Longer than the pauses of what a service does now and then: a new connection costs both sides
// more than many statements, by its process, its handshake and caches that are empty.
const idleConnectionMs = 300_000;

/**
 * Opens a pool. Connections are made when first needed, so this does not fail when PostgreSQL is
 * away.
 */
export function openDatabase(options: DatabaseOptions): Database {
  if (isTracing()) traceStatements();
  const limits: SessionLimits = {
    statementTimeoutMs: options.statementTimeoutMs ?? 10_000,
    idleInTransactionMs: options.idleInTransactionMs ?? 10_000,
    readOnly: options.readOnly ?? false,
  };
  const pool = new pg.Pool({
    connectionString: options.url,
    application_name: options.applicationName,
    max: options.connectionsMax ?? 8,
    connectionTimeoutMillis: options.connectTimeoutMs ?? 2_000,
    idleTimeoutMillis: idleConnectionMs,
    ...startParameters(limits),
    // The client's own limit is for a server that hangs or is unreachable; the outcome is then
    // unknown.
    query_timeout: limits.statementTimeoutMs + 1_000,
    keepAlive: true,
    // What is idle for minutes is dropped without a word by some networks on the way.
    keepAliveInitialDelayMillis: 30_000,
    types,
    verify: verifyBy(async (session) => {
      await requireLimits(session, limits);
      await options.onConnect?.(session);
    }),
  });
  pool.on('error', options.onIdleError);
  pool.on('connect', ignoreErrorsWhileHandedOut);
  const queryOf = options.statements === 'kept-prepared' ? namedQuery : plainQuery;
  const on = (client: pg.Pool | pg.PoolClient) => queryableOn(client, queryOf);
  return {
    ...on(pool),
    transaction: (work) => inTransaction(pool, (client) => work(on(client))),
    listen: (channel, heard, signal) => listen(pool, { channel, heard, signal }),
    ping: async () => void (await pool.query('SELECT 1')),
    close: () => pool.end(),
  };
}

/**
 * As {@link openDatabase}, for a command or a test: it waits longer for a connection, because
 * nobody is served worse by that, and a machine under load takes seconds to make one. Its
 * transactions may wait for longer, too: a redrive publishes within its own. A connection
 * that breaks while idle is not reported: the next query gets another, or its own error.
 */
export function openForCommand(
  options: Omit<DatabaseOptions, 'onIdleError' | 'connectTimeoutMs'>,
): Database {
  return openDatabase({
    idleInTransactionMs: 60_000,
    ...options,
    connectTimeoutMs: 30_000,
    onIdleError: () => undefined,
  });
}

/**
 * The pool takes its 'error' listener away before whoever gets the connection adds one, and an
 * error in between would end the process: a server may end its sessions at any moment. Nothing is
 * hidden by it, for the next statement fails.
 */
function ignoreErrorsWhileHandedOut(client: pg.PoolClient): void {
  client.on('error', () => undefined);
}

type QueryOf = (text: string, parameters: readonly unknown[]) => pg.QueryConfig;

function queryableOn(client: pg.Pool | pg.PoolClient, queryOf: QueryOf): Queryable {
  return {
    async query<Row extends object>(statement: string, parameters: readonly unknown[] = []) {
      return (await client.query<Row>(queryOf(statement, parameters))).rows;
    },
  };
}

/** The pool discards a new connection when its check calls back with an error. */
function verifyBy(onConnect: (session: Queryable) => Promise<unknown>) {
  return (client: pg.PoolClient, callback: (error?: Error) => void): void => {
    onConnect(queryableOn(client, plainQuery)).then(
      () => callback(),
      (error: unknown) => callback(error as Error),
    );
  };
}

function plainQuery(text: string, parameters: readonly unknown[]): pg.QueryConfig {
  return { text, values: [...parameters] };
}

const names = new Map<string, string>();

/** The client prepares a query that has a name at its first use on each connection. */
function namedQuery(text: string, parameters: readonly unknown[]): pg.QueryConfig {
  const name = names.get(text) ?? createHash('sha256').update(text).digest('hex').slice(0, 32);
  names.set(text, name);
  return { name, text, values: [...parameters] };
}

async function inTransaction<Result>(
  pool: pg.Pool,
  work: (client: pg.PoolClient) => Promise<Result>,
): Promise<Result> {
  const client = await pool.connect();
  let broken: Error | undefined;
  // A connection lost between two statements is reported by an event; unheard, it would end the
  // process.
  const onLost = (error: Error) => (broken = error);
  client.on('error', onLost);
  try {
    await client.query('BEGIN');
    const result = await work(client);
    await client.query('COMMIT');
    return result;
  } catch (error) {
    // A connection that cannot even roll back is thrown away; the server rolls back by itself.
    await client.query('ROLLBACK').catch((rollbackError: Error) => (broken = rollbackError));
    throw error;
  } finally {
    client.off('error', onLost);
    client.release(broken);
  }
}

async function listen(
  pool: pg.Pool,
  { channel, heard, signal }: { channel: string; heard: () => void; signal: AbortSignal },
): Promise<void> {
  if (signal.aborted) return;
  const client = await pool.connect();
  const ended = Promise.withResolvers<void>();
  // The connection may end before anybody waits for that.
  ended.promise.catch(() => undefined);
  const stop = () => ended.resolve();
  signal.addEventListener('abort', stop);
  if (signal.aborted) stop();
  client.on('notification', heard);
  client.once('error', ended.reject);
  client.once('end', () => ended.reject(new Error(`nothing is heard of ${channel} any more`)));
  try {
    await client.query(`LISTEN ${pg.escapeIdentifier(channel)}`);
    heard();
    await ended.promise;
  } finally {
    signal.removeEventListener('abort', stop);
    // Closed: whoever got it next would listen too. What it says of that concerns nobody.
    client.once('error', () => undefined);
    client.release(true);
  }
}

/**
 * What an error of PostgreSQL means for the work that met it.
 *
 * - `data`: this input can never be stored (SQLSTATE classes 22 and 23, and 54): bisect,
 *   dead-letter.
 * - `transient`: try the same again later (connection lost, deadlock, serialisation, out of
 *   resources, shutting down, time-out). The outcome of what was under way is unknown.
 * - `bug`: anything else, such as a missing table or a refused right. Retrying will not help, nor
 *   will dropping the input: it needs a person.
 */
export type DatabaseErrorKind = 'data' | 'transient' | 'bug';

/** Sorts an error by its SQLSTATE (PostgreSQL manual, appendix A). */
export function databaseErrorKind(error: unknown): DatabaseErrorKind {
  const code = (error as { code?: unknown }).code;
  // No SQLSTATE begins with E, but codes of the operating system such as EPIPE do.
  if (typeof code !== 'string' || !/^(?!E)[0-9A-Z]{5}$/.test(code)) return 'transient';
  if (/^(22|23|54)/.test(code)) return 'data';
  if (/^(08|40|53|55|57|58|25)/.test(code)) return 'transient';
  return 'bug';
}

let traced = false;

/**
 * Spans of statements, by the standard instrumentation. It is loaded here, when something is traced
 * and before the first pool, and put into the driver in place.
 *
 * Its spans for getting a connection stay on: they also carry who asked over the pool's queue,
 * without which a statement that waited would be traced as of whoever gave its connection back.
 */
function traceStatements(): void {
  if (traced) return;
  traced = true;
  const require = createRequire(import.meta.url);
  const { PgInstrumentation } = require('@opentelemetry/instrumentation-pg') as typeof PgTracing;
  new PgInstrumentation({
    // A loop that looks for work is nobody's.
    requireParentSpan: true,
    requestHook: (span, { query }) => {
      // It would call each after the first word of its file, which begins with a comment.
      const summary = nameOfSql(query.text);
      span.updateName(summary).setAttribute('db.query.summary', summary);
    },
  });
  require('pg');
  createRequire(require.resolve('pg'))('pg-pool');
}
