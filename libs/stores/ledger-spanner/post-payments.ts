import type { Fingerprint, TransactionState, TxnId } from '@triplock/payments';
import type { SpannerDatabase } from './spanner/open-spanner.ts';
import type { Write } from './spanner/writes.ts';
import type { Posting, PostOutcome } from '@triplock/ledger';
import { ownMs } from '@triplock/ledger';
import { paymentMovement, settledPayment, settlementEvent } from '@triplock/ledger';
import { compare, firstOfEach, stateAfter, type RowState } from '@triplock/ledger';
import { blamingInput, refuseBadTexts } from './unpostable.ts';
import {
  finalColumns,
  insertEntry,
  insertEvent,
  insertTransaction,
  requestColumns,
} from './write-rows.ts';

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
  const firsts = firstOfEach(batch);
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

function rowsOf({ payment, traceparent, settlement }: Posting): {
  transaction: Write;
  entry?: Write;
  event?: Write;
} {
  const row = { ...requestColumns(payment), kind: 'payment', version: 1 };
  if (settlement === undefined) {
    // By this process's clock. One that is wrong costs a look at the row, or delays it.
    const due_at = new Date(Date.now() + ownMs);
    const pending = { state: 'pending', events: 0, due_at, traceparent };
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
