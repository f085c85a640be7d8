import type { Ledger } from '@triplock/ledger';
import { isFinal } from '@triplock/payments';
import type { BookTransfer } from './book-transfer.ts';

/**
 * Finishes a payment that was posted and not settled, perhaps because that worker
 * died. The version that was read decides between this worker and any other that resumes it too.
 *
 * @throws when the row changed and is still pending: the record has to be looked at again.
 */
export async function resumePayment(
  ledger: Pick<Ledger, 'settle' | 'find'>,
  { payment, traceparent, settlement }: BookTransfer,
  version: number,
): Promise<'resumed' | 'already-recorded'> {
  const { txnId } = payment;
  const settled = await ledger.settle({ txnId, version, traceparent, ...settlement });
  if (settled.outcome === 'settled') return 'resumed';
  const row = await ledger.find(txnId);
  if (row && isFinal(row.state)) return 'already-recorded';
  throw new Error(`payment ${txnId} changed while it was resumed`);
}
