import { databaseErrorKind, type Database, type Queryable } from '@triplock/postgres';
import { inBatches, inSpan } from '@triplock/runtime';
import type { TxnId } from '@triplock/payments';
import { RowLockedError } from '../ledger.ts';
import { firstOfEach } from '../outcomes.ts';
import { isUnreadable } from '../rows.ts';
import { blamingInput } from './settlement.ts';

/**
 * What changes one row, guarded by the version that was read. `lockMs`: for how long it waits for
 * whoever has that; for as long as a statement may take unless given.
 */
type OfRow = { txnId: TxnId; lockMs?: number };

/** A step that many rows can take at once. */
type Step<Request extends OfRow, Outcome> = {
  /** Of the span that each row's own trace has of it. */
  name: string;
  /** `one` is a transaction by itself. */
  statements: 'one' | 'several';
  /**
   * Takes it for rows of which no two are the same. Nothing for a row that was not changed: it is
   * stale, or locked by somebody else.
   */
  take: (tx: Queryable, requests: readonly Request[]) => Promise<(Outcome | undefined)[]>;
  /** What it came to for a row that was not changed although nobody else had it. */
  stale: Outcome;
};

/** As many cards as are under way at once, and more. */
const limits = { itemsMax: 100 };

// Waits until nobody else holds the row; $1 its id.
const lockSql = 'SELECT FROM ledger.transactions WHERE txn_id = $1::uuid FOR NO KEY UPDATE';

/**
 * Does a step by one transaction for all rows that come while the one before is under way: its
 * commit waits for the disk, which costs more than all that is done for a row.
 *
 * A batch waits for no lock, so it holds up nobody whose rows are free and is part of no deadlock.
 * What it did not change is asked for alone, and waits: a row that another one holds, a second
 * request for a row of the batch. So is each of a batch that failed for what is in it, as far as
 * can be told: it was rolled back, and one row that the database refuses, that a trigger stops or
 * that nobody can read spoils no other. Each of a batch without an answer is unknown, as its own
 * transaction's would be. Statements of a batch are in one's trace alone.
 *
 * @throws UnpostableError for what is in the request itself, RowLockedError by its `lockMs`.
 */
export function inSharedTransactions<Request extends OfRow, Outcome>(
  database: Database,
  { name, statements, take, stale }: Step<Request, Outcome>,
): (request: Request) => Promise<Outcome> {
  const takeAll = async (requests: readonly Request[]) =>
    statements === 'one'
      ? take(database, requests)
      : database.transaction((tx) => take(tx, requests));
  const gather = inBatches<Request, Outcome | undefined>(async (requests) => {
    const firsts = [...firstOfEach(requests, ({ txnId }) => txnId).values()];
    const outcomes = await takeAll(firsts).catch((error: unknown) => {
      if (databaseErrorKind(error) === 'transient' && !isUnreadable(error)) throw error;
      return [];
    });
    const byRequest = new Map(firsts.map((each, at) => [each, outcomes[at]]));
    return requests.map((each) => byRequest.get(each));
  }, limits);
  const alone = (request: Request) =>
    blamingInput(() =>
      database.transaction(async (tx) => {
        await lockRow(tx, request);
        const [outcome] = await take(tx, [request]);
        return outcome ?? stale;
      }),
    );
  const attributes = { 'db.system.name': 'postgresql', 'db.query.summary': name };
  return (request) =>
    inSpan(
      { name, kind: 'client', attributes },
      async () => (await gather(request)) ?? alone(request),
    );
}

const lockNotAvailable = '55P03';

async function lockRow(tx: Queryable, { txnId, lockMs }: OfRow): Promise<void> {
  if (lockMs !== undefined) await tx.query(`SET LOCAL lock_timeout = ${lockMs}`);
  try {
    await tx.query(lockSql, [txnId]);
  } catch (error) {
    if ((error as { code?: unknown }).code !== lockNotAvailable) throw error;
    throw new RowLockedError(`somebody else has ${txnId}`, { cause: error });
  }
}
