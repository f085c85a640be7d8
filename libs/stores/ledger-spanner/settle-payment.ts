import type {
  SettleOutcome,
  SettleRequest,
  StoreIntentOutcome,
  StoreIntentRequest,
} from '@triplock/ledger';
import type { SpannerDatabase } from './spanner/open-spanner.ts';
import type { SpannerTransaction } from './spanner/transaction.ts';
import type { TxnId } from '@triplock/payments';
import { paymentMovement, settlementEvent } from '@triplock/ledger';
import { readTransaction } from './read-rows.ts';
import { paymentFrom, type TransactionRow } from './transaction-row.ts';
import { blamingInput } from './unpostable.ts';
import { finalColumns, insertEntry, insertEvent, updateTransaction } from './write-rows.ts';

/**
 * Settles one pending payment by `Ledger.settle`'s contract: state, entry and event, or nothing.
 */
export function settlePayment(
  database: SpannerDatabase,
  request: SettleRequest,
): Promise<SettleOutcome> {
  const { txnId, result, settledAt, traceparent, chargeId } = request;
  return blamingInput(() =>
    database.transaction(async (tx) => {
      const row = await readTransaction(tx, txnId);
      if (row?.kind !== 'payment') return { outcome: 'stale' };
      if (!isPendingAt(row, request.version)) return ownDoing(tx, row, request);
      const final = finalColumns(result, settledAt);
      const [version, events] = [row.version + 1n, row.events + 1n];
      tx.write(
        updateTransaction({
          txn_id: txnId,
          version,
          events,
          ...final,
          provider_charge_id: chargeId,
        }),
      );
      const settled = paymentFrom({
        ...row,
        ...{ version, events, state: result.state, settled_at: settledAt },
        failure_code: result.state === 'failed' ? result.failure.code : null,
        failure_message: result.state === 'failed' ? result.failure.message : null,
        provider_charge_id: chargeId ?? null,
      });
      const entry = paymentMovement(settled);
      if (entry !== undefined) tx.write(insertEntry(txnId, entry));
      tx.write(insertEvent(settlementEvent(settled, Number(events)), traceparent));
      await wakeRefunds(tx, txnId);
      return { outcome: 'settled' };
    }),
  );
}

/** Whether a row can still be changed by who saw that version of it. */
export function isPendingAt(row: TransactionRow, version: number): boolean {
  return row.state === 'pending' && row.version === BigInt(version);
}

/**
 * A row that is exactly as the request would have left it, after a commit without an answer, is it.
 */
export function ownDoing(
  tx: SpannerTransaction,
  row: TransactionRow,
  { version, result, settledAt }: Pick<SettleRequest, 'version' | 'result' | 'settledAt'>,
): SettleOutcome {
  const code = result.state === 'failed' ? result.failure.code : null;
  const isOurs =
    tx.mayHaveCommitted &&
    row.version > BigInt(version) &&
    row.state === result.state &&
    row.failure_code === code &&
    row.settled_at?.getTime() === settledAt.getTime();
  return { outcome: isOurs ? 'settled' : 'stale' };
}

const waitingSql = `
  SELECT txn_id, version FROM transactions@{FORCE_INDEX=refunds_of_a_payment, spanner_emulator.disable_query_null_filtered_index_check=true}
  WHERE payment_id = @txnId AND state = 'pending' AND due_at > @now`;

/**
 * Refunds that wait for the payment can go on now. One that looked at it before it was final has
 * committed, or is aborted and looks again: both hold the payment's row.
 */
async function wakeRefunds(tx: SpannerTransaction, txnId: TxnId): Promise<void> {
  // By this process's clock. One that is wrong delays them, or costs a write.
  const now = new Date();
  const waiting = await tx.query<{ txn_id: string; version: bigint }>(waitingSql, { txnId, now });
  for (const { txn_id, version } of waiting) {
    tx.write(updateTransaction({ txn_id, version: version + 1n, due_at: now }));
  }
}

/** Stores an intent by `Ledger.storeIntent`'s contract. */
export function storeIntent(
  database: SpannerDatabase,
  { txnId, version, provider, intentId }: StoreIntentRequest,
): Promise<StoreIntentOutcome> {
  return database.transaction(async (tx) => {
    const row = await readTransaction(tx, txnId);
    if (row?.kind !== 'payment') return { outcome: 'stale' };
    const stored = { outcome: 'stored', version: version + 1 } as const;
    // After a commit without an answer: the same intent at the next version is this call's own.
    const isOurs = row.provider_intent_id === intentId && isPendingAt(row, version + 1);
    if (tx.mayHaveCommitted && isOurs) return stored;
    if (!isPendingAt(row, version) || row.provider_intent_id !== null) return { outcome: 'stale' };
    const columns = { provider, provider_intent_id: intentId };
    tx.write(updateTransaction({ txn_id: txnId, version: row.version + 1n, ...columns }));
    return stored;
  });
}
