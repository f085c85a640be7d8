import type { Fingerprint, TransactionState, TxnId } from '@triplock/payments';
import type { Posting, PostOutcome } from './ledger.ts';

/** What stands in the ledger under an id. */
export type Standing = { fingerprint: Fingerprint; state: TransactionState; version: number };

/** The first posting of each id of a batch: the one that makes the row, if none is there. */
export function firstOfEach(batch: readonly Posting[]): Map<TxnId, Posting> {
  const firsts = new Map<TxnId, Posting>();
  for (const posting of batch) {
    if (!firsts.has(posting.payment.txnId)) firsts.set(posting.payment.txnId, posting);
  }
  return firsts;
}

/** What stands after a posting made its row. */
export function standingAfter({ payment, settlement }: Posting): Standing {
  const state = settlement?.result.state ?? 'pending';
  return { fingerprint: payment.fingerprint, state, version: 1 };
}

/** What a posting comes to whose id was taken. */
export function compare({ payment }: Posting, row: Standing): PostOutcome {
  if (row.fingerprint !== payment.fingerprint) {
    return { outcome: 'key-conflict', winner: row.fingerprint };
  }
  if (row.state === 'pending') return { outcome: 'unfinished', version: row.version };
  return { outcome: 'already-recorded', state: row.state };
}
