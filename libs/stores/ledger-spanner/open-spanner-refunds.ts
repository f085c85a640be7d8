import type { Refund, TxnId } from '@triplock/payments';
import type { SpannerDatabase } from './spanner/open-spanner.ts';
import type { Refunds } from '@triplock/ledger';
import { listRefunds } from './list-refunds.ts';
import { postRefund } from './post-refund.ts';
import { readTransaction, type Reader } from './read-rows.ts';
import { recordRefundConflict } from './record-key-conflict.ts';
import { isPendingAt } from './settle-payment.ts';
import { settleRefund } from './settle-refund.ts';
import { paymentOfRefund, refundFrom } from './transaction-row.ts';
import { blamingInput, refuseBadTexts } from './unpostable.ts';
import { updateTransaction } from './write-rows.ts';

/** Refunds in Cloud Spanner. The connection stays the caller's to close. */
export function openSpannerRefunds(database: SpannerDatabase): Refunds {
  return {
    post: (posting) =>
      blamingInput(async () => {
        refuseBadTexts(Object.values(posting.refund.details));
        return database.transaction((tx) => postRefund(tx, posting));
      }),
    settle: (request) =>
      blamingInput(() => database.transaction((tx) => settleRefund(tx, request))),
    storeRefundId: (request) => storeRefundId(database, request),
    recordKeyConflict: (posting) => recordRefundConflict(database, posting),
    find: async (txnId) => findRefund(database, txnId),
    listOf: (request) => listRefunds(database, request),
  };
}

async function findRefund(reader: Reader, txnId: TxnId): Promise<Refund | undefined> {
  const row = await readTransaction(reader, txnId);
  if (row?.kind !== 'refund') return undefined;
  const payment = await readTransaction(reader, row.payment_id as TxnId);
  return refundFrom(row, paymentOfRefund(row, payment));
}

function storeRefundId(
  database: SpannerDatabase,
  { txnId, version, refundId }: Parameters<Refunds['storeRefundId']>[0],
): ReturnType<Refunds['storeRefundId']> {
  return database.transaction(async (tx) => {
    const row = await readTransaction(tx, txnId);
    if (row?.kind !== 'refund') return { outcome: 'stale' };
    const stored = { outcome: 'stored', version: version + 1 } as const;
    // After a commit without an answer: the same id at the next version is this call's own.
    const isOurs = row.provider_refund_id === refundId && isPendingAt(row, version + 1);
    if (tx.mayHaveCommitted && isOurs) return stored;
    if (!isPendingAt(row, version)) return { outcome: 'stale' };
    const columns = { provider_refund_id: refundId };
    tx.write(updateTransaction({ txn_id: txnId, version: row.version + 1n, ...columns }));
    return stored;
  });
}
