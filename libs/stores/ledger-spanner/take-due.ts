import { traceparentOf } from '@triplock/contracts';
import type { TxnId } from '@triplock/payments';
import type { SpannerDatabase } from './spanner/open-spanner.ts';
import type { DueTransaction, TakeDue } from '@triplock/ledger';
import { readTransaction } from './read-rows.ts';
import {
  paymentFrom,
  paymentOfRefund,
  refundFrom,
  type TransactionRow,
} from './transaction-row.ts';
import { updateTransaction } from './write-rows.ts';

const hint =
  'FORCE_INDEX=transactions_due, spanner_emulator.disable_query_null_filtered_index_check=true';
const dueSql = `
  SELECT due.txn_id
  FROM UNNEST(GENERATE_ARRAY(0, 15)) AS wanted_shard,
    UNNEST(ARRAY(
      SELECT AS STRUCT txn_id, due_at FROM transactions@{${hint}}
      WHERE due_shard = wanted_shard AND due_at <= CURRENT_TIMESTAMP()
      ORDER BY due_at LIMIT @limit
    )) AS due
  ORDER BY due.due_at LIMIT @limit`;

const stillDueSql = `
  SELECT txn_id, version, created_at, CURRENT_TIMESTAMP() AS now FROM transactions
  WHERE txn_id IN UNNEST(@ids) AND state = 'pending' AND due_at <= CURRENT_TIMESTAMP()`;

type Due = Pick<TransactionRow, 'version' | 'created_at'> & { txn_id: TxnId; now: Date };

/**
 * Takes due transactions of the ledger in Spanner. They are looked for without locks and then taken
 * by their ids: locks on what is next would hold up workers that post.
 */
export function takeDueFromSpanner(database: SpannerDatabase): TakeDue {
  return async ({ limit, leaseMs }) => {
    const ids = await findDue(database, limit);
    if (ids.length === 0) return [];
    const taken = await database.transaction(async (tx) => {
      const rows = await tx.query<Due>(stillDueSql, { ids });
      for (const { txn_id, version, created_at, now } of rows) {
        const restMs = Math.max(leaseMs, Math.min(60_000, (+now - +created_at) / 4));
        const due_at = new Date(+now + restMs);
        tx.write(updateTransaction({ txn_id, version: version + 1n, due_at }));
      }
      return rows.map(({ txn_id, version }) => ({ txnId: txn_id, version: version + 1n }));
    });
    const due = await Promise.all(taken.map((each) => read(database, each)));
    return due.filter((each) => each !== undefined);
  };
}

/** So many are looked at before a statement is asked for the longest due of more. */
const lookedAtMax = 256;

/** Which are due, the longest first; by this process's clock, as long as they are few. */
async function findDue(database: SpannerDatabase, limit: number): Promise<TxnId[]> {
  const upTo = new Date();
  const few = await database.read<{ txn_id: TxnId; due_at: Date }>({
    ...{ table: 'transactions', index: 'transactions_due', columns: ['txn_id', 'due_at'] },
    keys: { ranges: Array.from({ length: 16 }, (_, shard) => ({ prefix: [shard], upTo })) },
    limit: lookedAtMax,
  });
  const due =
    few.length < lookedAtMax
      ? few.sort((one, other) => +one.due_at - +other.due_at).slice(0, limit)
      : await database.query<{ txn_id: TxnId }>(dueSql, { limit });
  return due.map(({ txn_id }) => txn_id);
}

/** As it was taken: a worker that changed it since has it now, or has finished it. */
async function read(
  database: SpannerDatabase,
  { txnId, version }: { txnId: TxnId; version: bigint },
): Promise<DueTransaction | undefined> {
  const row = await readTransaction(database, txnId);
  if (row?.version !== version) return undefined;
  const traceparent = traceparentOf(row.traceparent ?? undefined, txnId);
  if (row.kind === 'payment') return { kind: 'payment', payment: paymentFrom(row), traceparent };
  const payment = await readTransaction(database, row.payment_id as TxnId);
  const refund = refundFrom(row, paymentOfRefund(row, payment));
  return { kind: 'refund', refund, traceparent };
}
