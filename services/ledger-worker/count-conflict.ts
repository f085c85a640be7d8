import type { RefundOutcome } from '@triplock/ledger';
import type { RecordMetrics } from './metrics.ts';
import type { PostResult } from './post-batch.ts';

type Posted = PostResult['outcome'] | RefundOutcome['outcome'];

/** What says that the txn_id was in the ledger already. */
const conflictOf = {
  'already-recorded': 'final',
  unfinished: 'resumed',
  'key-conflict': 'key-conflict',
} as const;

/**
 * Counts what posting found in the ledger already. Another request under the key is no duplicate.
 */
export function countConflict(
  { conflicts, caught }: Pick<RecordMetrics, 'conflicts' | 'caught'>,
  posted: Posted,
): void {
  const conflict = isConflict(posted) ? conflictOf[posted] : undefined;
  if (conflict === undefined) return;
  conflicts.count(conflict);
  if (conflict !== 'key-conflict') caught.count('ledger');
}

function isConflict(posted: Posted): posted is keyof typeof conflictOf {
  return Object.hasOwn(conflictOf, posted);
}
