import { inSpan, type SpanSpec } from '@triplock/runtime';
import {
  type CallResult,
  type Calls,
  callsOf,
  openDataApi,
  type Selector,
  type SpannerAddress,
} from './calls.ts';
import { isSessionLost } from './errors.ts';
import { keepSessions } from './sessions.ts';
import { runTransaction, type Work } from './transaction.ts';
import { decodeRows, type Lookup, type Params } from './values.ts';

/** How to work with a database of Spanner. */
export type SpannerOptions = SpannerAddress & {
  /** The database role whose rights hold, where fine-grained access control is used. */
  role?: string | undefined;
  /** Reads at once. */
  sessionsMax?: number;
  /** Transactions at once; whoever comes then waits in line. */
  transactionsMax?: number | undefined;
  /** Until a single call is given up. */
  callLimitMs?: number;
  /** Until a transaction is no longer repeated. */
  transactionLimitMs?: number;
};

/**
 * A database of Spanner. It connects when first used, and a database that is away may come back.
 */
export type SpannerDatabase = {
  /** Reads what is committed now, without locks. */
  query<Row>(sql: string, params?: Params): Promise<Row[]>;
  /** As `query`, by keys. */
  read<Row>(lookup: Lookup): Promise<Row[]>;
  /** Reads several times as of one moment, which it gives in microseconds since 1970. */
  snapshot<Result>(work: (moment: Moment) => Promise<Result>): Promise<Result>;
  /** Reads and writes, all or nothing; see {@link runTransaction}. The work may run many times. */
  transaction<Result>(work: Work<Result>): Promise<Result>;
  ping(): Promise<void>;
  close(): Promise<void>;
};

/** A moment of the database. */
export type Moment = {
  query<Row>(sql: string, params?: Params): Promise<Row[]>;
  read<Row>(lookup: Lookup): Promise<Row[]>;
  /** Everything that was committed until then is seen, and nothing later. */
  readAtMicros: bigint;
};

/** Opens a database. */
export async function openSpanner(options: SpannerOptions): Promise<SpannerDatabase> {
  return spannerOver(await openCalls(options), options);
}

/** The calls that everything is made of. */
export async function openCalls(options: SpannerOptions): Promise<Calls> {
  const { callLimitMs = 10_000 } = options;
  return callsOf(await openDataApi(options), { ...options, callLimitMs });
}

/** As {@link openSpanner}, over calls that a test may let go wrong. */
export function spannerOver(calls: Calls, options: Partial<SpannerOptions> = {}): SpannerDatabase {
  const { sessionsMax = 10, transactionsMax = 10, transactionLimitMs = 30_000 } = options;
  // Apart, because a transaction may be repeated for long, and no read nor ping is to wait for
  // that.
  const sessions = keepSessions(calls, sessionsMax);
  const ofTransactions = keepSessions(calls, transactionsMax, transactionLimitMs);

  /** A read on a session that the server forgot is read again on a new one. */
  const reading = <Result>(work: (session: string) => Promise<Result>) =>
    sessions.lend(async (session) => {
      try {
        return await work(session.name);
      } catch (error) {
        if (!isSessionLost(error)) throw error;
        await session.renew();
        return work(session.name);
      }
    });

  type Call = (within: { session: string; transaction: Selector }) => Promise<CallResult>;
  const transaction: Selector = { singleUse: { readOnly: { strong: true } } };
  const readNow = (call: Call): Promise<CallResult> =>
    inSpan(spanOf('read'), () => reading((session) => call({ session, transaction })));
  const query = async <Row>(sql: string, params: Params = {}) =>
    decodeRows<Row>(await readNow((within) => calls.execute({ ...within, sql, params, seqno: 1 })));

  return {
    query,
    read: async <Row>(lookup: Lookup) =>
      decodeRows<Row>(await readNow((within) => calls.read({ ...within, lookup })), lookup.micros),
    snapshot: (work) => reading(async (session) => work(await momentOf(calls, session))),
    transaction: (work) =>
      inSpan(spanOf('transaction'), () =>
        ofTransactions.lend((session) =>
          runTransaction({ calls, session, limitMs: transactionLimitMs }, work),
        ),
      ),
    ping: async () => void (await query('SELECT 1')),
    async close() {
      await Promise.all([sessions.close(), ofTransactions.close()]);
      await calls.close();
    },
  };
}

/** A span of our own: those of Google's package are made by its high-level client (ADR 9). */
function spanOf(summary: 'read' | 'transaction'): SpanSpec {
  const attributes = { 'db.system.name': 'gcp.spanner', 'db.query.summary': summary };
  return { name: `spanner ${summary}`, kind: 'client', attributes };
}

async function momentOf(calls: Calls, session: string): Promise<Moment> {
  const readOnly = { strong: true, returnReadTimestamp: true } as const;
  const transaction = { begin: { readOnly } };
  const begun = await calls.execute({
    session,
    transaction,
    sql: 'SELECT 1',
    params: {},
    seqno: 1,
  });
  const { id, readTimestamp } = begun.metadata!.transaction!;
  const { seconds, nanos } = readTimestamp!;
  const within = { session, transaction: { id: id as Uint8Array } };
  return {
    query: async <Row>(sql: string, params: Params = {}) =>
      decodeRows<Row>(await calls.execute({ ...within, sql, params, seqno: 1 })),
    read: async <Row>(lookup: Lookup) =>
      decodeRows<Row>(await calls.read({ ...within, lookup }), lookup.micros),
    readAtMicros: BigInt(String(seconds)) * 1_000_000n + BigInt(Math.floor((nanos ?? 0) / 1_000)),
  };
}
