import {
  compare,
  disputedEvent,
  type DisputeListOutcome,
  type DisputeListRequest,
  disputeOf,
  type DisputeOutcome,
  type DisputeReport,
  type DisputeRow,
  firstOfEach,
  inSlices,
  type Ledger,
  type ListOutcome,
  type ListRequest,
  ownMs,
  pageBytesMax,
  paymentMovement,
  type Posting,
  type PostedPortion,
  type PostOutcome,
  refuseBadTexts,
  type RowState,
  settledPayment,
  settlementEvent,
  stateAfter,
  wishOf,
} from '@triplock/ledger';
import {
  traceparentOf,
  type Dispute,
  type DisputeId,
  type Fingerprint,
  type Money,
  type PartnerId,
  type TransactionKind,
  type TransactionState,
  type TxnId,
} from '@triplock/payments';
import { loadSql } from '@triplock/postgres';
import {
  finalColumns,
  insertDispute,
  insertDisputeEnd,
  insertEntry,
  insertEvent,
  insertTransaction,
  paymentFrom,
  readTransaction,
  requestColumns,
  transactionShards,
  type TransactionRow,
  updateTransaction,
} from './rows.ts';
import { blamingInput, recordKeyConflict, settlePayment } from './settlement.ts';
import type { SpannerDatabase } from './spanner/database.ts';
import type { Write } from './spanner/values.ts';
import { authorize, awaitCustomer, paymentSql, storeIntent } from './unfinished.ts';

// The index holds those alone that did not succeed.
const pendingSql = `
  SELECT currency, SUM(amount) AS amount
  FROM transactions@{FORCE_INDEX=payments_not_succeeded, spanner_emulator.disable_query_null_filtered_index_check=true}
  WHERE partner_id = @partner AND kind = 'payment' AND unusual_state = 'pending'
  GROUP BY currency
  ORDER BY currency`;

/** The ledger in Cloud Spanner. Closing it closes the database's connection. */
export function openSpannerLedger(database: SpannerDatabase): Ledger {
  return {
    post: (batch) => postPayments(database, batch),
    storeIntent: (request) => storeIntent(database, request),
    awaitCustomer: (request) => awaitCustomer(database, request),
    noteDispute: (report) => noteDispute(database, report),
    findDispute: (asked) => findDispute(database, asked),
    listDisputes: (request) => listDisputes(database, request),
    authorize: (request) => authorize(database, request),
    settle: (request) => settlePayment(database, request),
    recordKeyConflict: (posting) => recordKeyConflict(database, posting),
    find: async (txnId) => {
      const row = await readTransaction(database, txnId);
      return row === undefined || row.payment_id !== null ? undefined : paymentFrom(row);
    },
    kindsOf: (ids) => kindsOf(database, ids),
    postedWithin: (ms) => changedWithin(database, ms),
    list: (request) => listPayments(database, request),
    pendingOf: (partner) => database.query<Money>(pendingSql, { partner }),
    isEmpty: async () =>
      (await database.query('SELECT txn_id FROM transactions LIMIT 1')).length === 0,
    ping: () => database.ping(),
    close: () => database.close(),
  };
}

/**
 * Posts a batch by `Ledger.post`'s contract: reads which ids are taken, and writes the others with
 * the commit. What was read is locked until then, the absence of a row included.
 *
 * After a commit without an answer a row of the batch may be this call's own doing. It is reported
 * as a duplicate then, as a redelivery of the record would be.
 */
export async function postPayments(
  database: SpannerDatabase,
  batch: readonly Posting[],
): Promise<PostOutcome[]> {
  if (batch.length === 0) return [];
  const firsts = firstOfEach(batch, ({ payment }) => payment.txnId);
  for (const { payment } of firsts.values()) refuseBadTexts(Object.values(payment.details));
  return blamingInput(() =>
    database.transaction(async (tx) => {
      const taken = await tx.read<RowStateRow>({
        table: 'transactions',
        columns: ['txn_id', 'fingerprint', 'state', 'version'],
        keys: [...firsts.keys()].map((txnId) => [txnId]),
      });
      const states = new Map<TxnId, RowState>(taken.map((row) => [row.txn_id, stateOf(row)]));
      const made = new Set<TxnId>();
      const open = [...firsts.values()].filter(({ payment }) => !states.has(payment.txnId));
      tx.write(...writesOf(open));
      for (const posting of open) {
        states.set(posting.payment.txnId, stateAfter(posting));
        made.add(posting.payment.txnId);
      }
      return batch.map((posting): PostOutcome => {
        const { txnId } = posting.payment;
        // The first of its id made the row; the ones after it in the batch are its duplicates.
        if (made.delete(txnId)) return { outcome: 'posted' };
        return compare(posting, states.get(txnId)!);
      });
    }),
  );
}

type RowStateRow = {
  txn_id: TxnId;
  fingerprint: Fingerprint;
  state: TransactionState;
  version: bigint;
};

function stateOf({ fingerprint, state, version }: RowStateRow): RowState {
  return { fingerprint, state, version: Number(version) };
}

/**
 * Rows of one table after the other, alike, so that they travel as one; an entry after its parent.
 */
function writesOf(postings: readonly Posting[]): Write[] {
  const written = postings.map(rowsOf);
  return [
    ...written.map(({ transaction }) => transaction),
    ...written.flatMap(({ entry }) => entry ?? []),
    ...written.flatMap(({ event }) => event ?? []),
  ];
}

function rowsOf({ payment, traceparent, settlement, provider }: Posting): {
  transaction: Write;
  entry?: Write;
  event?: Write;
} {
  const row = { ...requestColumns(payment), version: 1 };
  if (settlement === undefined) {
    // By this process's clock. One that is wrong costs a look at the row, or delays it.
    const due_at = new Date(Date.now() + ownMs);
    const pending = {
      state: 'pending',
      provider: provider ?? null,
      events: 0,
      due_at,
      traceparent,
    };
    return { transaction: insertTransaction({ ...row, ...pending }) };
  }
  const settled = settledPayment(payment, settlement);
  const moved = paymentMovement(settled);
  const final = finalColumns(settlement.result, settlement.settledAt);
  return {
    transaction: insertTransaction({ ...row, ...final, events: 1 }),
    ...(moved !== undefined && { entry: insertEntry(payment.txnId, moved) }),
    event: insertEvent(settlementEvent(settled, 1), traceparent),
  };
}

/** Of some ids those that the ledger knows, with their kinds: one read by their keys. */
async function kindsOf(
  database: SpannerDatabase,
  ids: readonly TxnId[],
): Promise<ReadonlyMap<TxnId, TransactionKind>> {
  const rows = await database.read<Pick<TransactionRow, 'txn_id' | 'kind'>>({
    table: 'transactions',
    columns: ['txn_id', 'kind'],
    keys: ids.map((txnId) => [txnId]),
  });
  return new Map(rows.map(({ txn_id: txnId, kind }) => [txnId as TxnId, kind]));
}

const changedSql = `
  SELECT txn_id
  FROM transactions@{FORCE_INDEX=transactions_by_change}
  WHERE shard IN UNNEST(GENERATE_ARRAY(0, ${transactionShards - 1}))
    AND changed_at >= @from AND changed_at < @before
  LIMIT @limit`;

/** A row changes when it is posted, and may since: from the index of changes alone. */
async function* changedWithin(
  database: SpannerDatabase,
  ms: number,
): AsyncGenerator<PostedPortion> {
  const [time] = await database.query<{ now: Date }>('SELECT CURRENT_TIMESTAMP() AS now');
  yield* inSlices({ now: time!.now, ms }, async (slice) => {
    const rows = await database.query<Pick<TransactionRow, 'txn_id'>>(changedSql, slice);
    return rows.map(({ txn_id: txnId }) => txnId as TxnId);
  });
}

const listSql = loadSql(import.meta.url, 'list.sql');

/** The page after a payment, or the first one. */
export async function listPayments(
  database: SpannerDatabase,
  {
    partnerId,
    limit,
    bytesMax = pageBytesMax,
    after,
    status,
    reference,
    since,
    until,
  }: ListRequest,
): Promise<ListOutcome> {
  const { state, isAuthorized } = wishOf(status);
  let before: Date | undefined;
  if (after !== undefined) {
    const position = await readTransaction(database, after);
    if (position?.kind !== 'payment' || position.partner_id !== partnerId) {
      return { outcome: 'unknown-cursor' };
    }
    before = position.created_at;
  }
  const wish = { state, isAuthorized, reference, before, since, until };
  const sql = listSql.replace('$INDEX', indexFor(wish)).replace('$FILTER', filterFor(wish));
  const rows = await database.query<TransactionRow & { more: boolean }>(sql, {
    partner: partnerId,
    limit,
    rows: limit + 1,
    bytes: bytesMax,
    before,
    after,
    state,
    reference,
    since,
    until,
  });
  return { outcome: 'page', payments: rows.map(paymentFrom), hasMore: rows.at(-1)?.more ?? false };
}

type Wish = ReturnType<typeof wishOf> &
  Pick<ListRequest, 'reference' | 'since' | 'until'> & { before?: Date };

const isUnusual = (state: Wish['state']) => state !== undefined && state !== 'succeeded';

/** The index that holds the least of what is not wished for. */
function indexFor({ state, reference }: Wish): string {
  if (reference !== undefined) return 'payments_by_reference';
  return isUnusual(state) ? 'payments_not_succeeded' : 'payments_by_time';
}

function filterFor({ state, isAuthorized, reference, before, since, until }: Wish): string {
  const filters = ['TRUE'];
  if (reference !== undefined) filters.push('reference = @reference');
  if (state !== undefined) filters.push('state = @state');
  if (isAuthorized !== undefined) {
    filters.push(`authorized_at IS ${isAuthorized ? 'NOT NULL' : 'NULL'}`);
  }
  if (isUnusual(state)) filters.push('unusual_state = @state');
  if (since !== undefined) filters.push('created_at >= @since');
  if (until !== undefined) filters.push('created_at < @until');
  if (before !== undefined) {
    filters.push('(created_at < @before OR (created_at = @before AND txn_id < @after))');
  }
  return filters.join(' AND ');
}

/**
 * Notes a dispute by `Ledger.noteDispute`'s contract. After a commit without an answer it finds its
 * own note, which is `already-noted`: it was told once. What was read of the payment is locked
 * until the commit, so two disputes of it never get one number, and a dispute one end.
 */
function noteDispute(database: SpannerDatabase, report: DisputeReport): Promise<DisputeOutcome> {
  const { provider, intentId, disputeId, currency, reason, end } = report;
  return blamingInput(async () => {
    refuseBadTexts([intentId, disputeId, reason]);
    return database.transaction(async (tx) => {
      const asked = { provider, intentId };
      const [found] = await tx.query<{ txn_id: TxnId }>(paymentSql, asked);
      const row = found && (await readTransaction(tx, found.txn_id));
      if (found === undefined || row?.kind !== 'payment') return { outcome: 'unknown' };
      const { txn_id: txnId } = found;
      if (row.state === 'pending') return { outcome: 'not-final', txnId };
      if (row.currency !== currency) return { outcome: 'other-currency', txnId };
      const keys = [[txnId, disputeId]];
      const columns = ['dispute_id'];
      const [known] = await tx.read({ table: 'disputes', columns, keys });
      const [ended] = known ? await tx.read({ table: 'dispute_ends', columns, keys }) : [];
      if (known && (end === undefined || ended)) return { outcome: 'already-noted', txnId };
      const [clock] = await tx.query<{ now: Date }>('SELECT CURRENT_TIMESTAMP() AS now');
      const at = new Date(+clock!.now);
      const version = row.version + 1n;
      const writeEnd = () =>
        end && tx.write(insertDisputeEnd(txnId, { disputeId, ended: end, endedAt: at }));
      if (known) {
        // The copy sees by the payment's row that there is something new.
        tx.write(updateTransaction({ txn_id: txnId, version }));
        writeEnd();
        return { outcome: 'ended', txnId };
      }
      const events = row.events + 1n;
      const when = { disputedAt: at, sequence: Number(events) };
      const payment = paymentFrom({ ...row, version, events });
      tx.write(
        updateTransaction({ txn_id: txnId, version, events }),
        insertDispute(payment, report, when),
      );
      writeEnd();
      const traceparent = traceparentOf(row.traceparent ?? undefined, txnId);
      tx.write(insertEvent(disputedEvent(payment, report, when), traceparent));
      return { outcome: 'disputed', txnId };
    });
  });
}

/** A dispute with what else {@link DisputeRow} has. */
const disputesSql = `
  SELECT disputes.*, payment.provider, payment.currency, ends.ended, ends.ended_at
  FROM disputes
  JOIN transactions AS payment ON payment.txn_id = disputes.txn_id
  LEFT JOIN dispute_ends AS ends
    ON ends.txn_id = disputes.txn_id AND ends.dispute_id = disputes.dispute_id
  WHERE disputes.partner_id = @partner`;

async function findDispute(
  database: SpannerDatabase,
  { id, partnerId: partner }: { id: DisputeId; partnerId: PartnerId },
): Promise<Dispute | undefined> {
  const sql = `${disputesSql} AND disputes.id = @id`;
  const [row] = await database.query<DisputeRow>(sql, { id, partner });
  return row && disputeOf(row);
}

async function listDisputes(
  database: SpannerDatabase,
  { partnerId, limit, after, paymentId, status }: DisputeListRequest,
): Promise<DisputeListOutcome> {
  const position = after && (await findDispute(database, { id: after, partnerId }));
  if (after !== undefined && position === undefined) return { outcome: 'unknown-cursor' };
  const before = position?.createdAt;
  const filters = [
    ...(paymentId === undefined ? [] : ['disputes.txn_id = @payment']),
    ...(status === undefined ? [] : ["COALESCE(ends.ended, 'open') = @status"]),
    ...(before === undefined
      ? []
      : [
          '(disputes.created_at < @before OR (disputes.created_at = @before AND disputes.id < @after))',
        ]),
  ];
  const sql = `
    ${disputesSql} ${filters.map((each) => `AND ${each}`).join(' ')}
    ORDER BY disputes.created_at DESC, disputes.id DESC
    LIMIT @rows`;
  const wish = { payment: paymentId, status, before, after };
  const rows = await database.query<DisputeRow>(sql, {
    partner: partnerId,
    rows: limit + 1,
    ...wish,
  });
  const disputes = rows.slice(0, limit).map(disputeOf);
  return { outcome: 'page', disputes, hasMore: rows.length > limit };
}
