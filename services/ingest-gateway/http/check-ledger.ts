import type { Claims } from '@triplock/claims';
import type { LedgerStore } from '@triplock/ledgers';
import { withDeadline, type ReadinessCheck } from '@triplock/runtime';
import { anyId, pingMs } from './check-postgres.ts';

/** What the check asks. */
export type CheckLedgerParts = Pick<LedgerStore, 'ledger'> & { claims: Pick<Claims, 'read'> };

const degraded = 'away: payments are accepted, reads wait';

/**
 * The part of a ledger outside PostgreSQL in `/readyz`: a gateway whose claims remember accepts
 * without it, one whose claims forgot needs the ledger to answer for them.
 */
export function checkLedger({ ledger, claims }: CheckLedgerParts): ReadinessCheck {
  return async () => {
    try {
      return await withDeadline(ledger.ping(), { ms: pingMs, what: 'the ledger' });
    } catch (error) {
      if ((await claims.read(anyId)).outcome === 'cold') throw error;
      return { degraded };
    }
  };
}
