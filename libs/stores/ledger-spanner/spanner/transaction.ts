import { backoffMs } from '@triplock/runtime';
import type { CallResult, Calls, Selector } from './calls.ts';
import {
  isInvalidated,
  isRefusal,
  isSessionLost,
  mayHaveHappened,
  retryDelayOf,
  status,
  statusOf,
  WriteRefusedError,
} from './errors.ts';
import type { Lent } from './sessions.ts';
import { decodeRows, type Lookup, mutationsOf, type Params, type Write } from './values.ts';

/** One attempt at a transaction. */
export type SpannerTransaction = {
  /** Reads what is committed, and holds it until the commit. What `write` was given is not seen. */
  query<Row>(sql: string, params?: Params): Promise<Row[]>;
  /** As `query`; the absence of a row that was looked for by its whole key is held as well. */
  read<Row>(lookup: Lookup): Promise<Row[]>;
  /** Is written when the work is done, all of it or nothing. */
  write(...writes: readonly Write[]): void;
  /**
   * An earlier attempt ended without an answer to its commit, so what is read may be its doing:
   * compare before you say that another one did it.
   */
  readonly mayHaveCommitted: boolean;
};

/** Everything of an attempt that may be repeated: no call to anyone else belongs in here. */
export type Work<Result> = (tx: SpannerTransaction) => Promise<Result>;

/** Waits between attempts, milliseconds: an aborted one lost to another, which is soon done. */
const between = { firstMs: 4, maxMs: 250 };

/**
 * Runs the work in a read-write transaction until it commits. It is repeated whole when Spanner
 * aborts it, which it does to any at any time, and when a commit is not answered.
 *
 * @throws WriteRefusedError when what it writes can never be stored; nothing was written. Any other
 * rejection means that the outcome is unknown.
 */
export async function runTransaction<Result>(
  { calls, session, limitMs }: { calls: Calls; session: Lent; limitMs: number },
  work: Work<Result>,
): Promise<Result> {
  const startedMs = performance.now();
  let mayHaveCommitted = false;
  for (let attempt = 0; ; attempt += 1) {
    const ended: Ended<Result> = await runOnce({ calls, session, mayHaveCommitted }, work);
    if (ended.outcome === 'committed') return ended.result;
    const { error } = ended;
    if (ended.outcome === 'failed') throw error;
    mayHaveCommitted ||= ended.outcome === 'unknown';
    if (isSessionLost(error)) await session.renew();
    const waitMs = retryDelayOf(error) ?? backoffMs(attempt, between);
    if (performance.now() - startedMs + waitMs > limitMs) throw error;
    await new Promise((resolve) => setTimeout(resolve, waitMs));
  }
}

type Ended<Result> =
  | { outcome: 'committed'; result: Result }
  /** Certainly not committed, and worth another attempt. */
  | { outcome: 'aborted'; error: unknown }
  | { outcome: 'unknown'; error: unknown }
  | { outcome: 'failed'; error: unknown };

async function runOnce<Result>(
  site: { calls: Calls; session: Lent; mayHaveCommitted: boolean },
  work: Work<Result>,
): Promise<Ended<Result>> {
  const { calls, mayHaveCommitted } = site;
  const session = site.session.name;
  const begun = beginWhenUsed(calls, session);
  const writes: Write[] = [];
  let result: Result;
  try {
    result = await work({
      query: begun.query,
      read: begun.read,
      write: (...more) => void writes.push(...more),
      mayHaveCommitted,
    });
    if (writes.length > 0 && begun.id() === undefined) await begun.begin();
  } catch (error) {
    await rollBack(calls, { session, transactionId: begun.id() });
    return { outcome: isAborted(error) ? 'aborted' : 'failed', error };
  }
  const transactionId = begun.id();
  if (transactionId === undefined) return { outcome: 'committed', result };
  try {
    await calls.commit({ session, transactionId, mutations: mutationsOf(writes) });
    return { outcome: 'committed', result };
  } catch (error) {
    if (isAborted(error)) return { outcome: 'aborted', error };
    if (mayHaveHappened(error)) return { outcome: 'unknown', error };
    await rollBack(calls, { session, transactionId });
    if (!isRefusal(error)) return { outcome: 'failed', error };
    const refused = new WriteRefusedError((error as Error).message, { cause: error });
    return { outcome: 'failed', error: refused };
  }
}

const isAborted = (error: unknown) =>
  statusOf(error) === status.aborted || isSessionLost(error) || isInvalidated(error);

/** The transaction begins with its first statement: a call of its own would cost a round trip. */
function beginWhenUsed(calls: Calls, session: string) {
  let id: Uint8Array | undefined;
  let seqno = 0;
  // One after the other: a second statement cannot be sent before the first has named the
  // transaction.
  let last: Promise<unknown> = Promise.resolve();

  type Call = (transaction: Selector) => Promise<CallResult>;

  async function run(call: Call): Promise<CallResult> {
    const result = await call(id === undefined ? { begin: { readWrite: {} } } : { id });
    id ??= result.metadata?.transaction?.id as Uint8Array | undefined;
    return result;
  }

  function inTurn(call: Call): Promise<CallResult> {
    const next = last.then(() => run(call));
    last = next.catch(() => undefined); // Whoever asked gets the error.
    return next;
  }

  return {
    id: () => id,
    query: async <Row>(sql: string, params: Params = {}) => {
      const call: Call = (transaction) => {
        seqno += 1;
        return calls.execute({ session, transaction, sql, params, seqno });
      };
      return decodeRows<Row>(await inTurn(call));
    },
    read: async <Row>(lookup: Lookup) => {
      const call: Call = (transaction) => calls.read({ session, transaction, lookup });
      return decodeRows<Row>(await inTurn(call), lookup.micros);
    },
    begin: async () => void (id = await calls.begin(session)),
  };
}

/** Frees the locks at once. Without it they go when the session's next transaction begins. */
async function rollBack(
  calls: Calls,
  { session, transactionId }: { session: string; transactionId: Uint8Array | undefined },
): Promise<void> {
  if (transactionId === undefined) return;
  await calls.rollback({ session, transactionId }).catch(() => undefined);
}
