import type { Claims } from '@triplock/claims';
import type { Partners } from '@triplock/partners';
import { deriveTxnId, type IdempotencyKey, type PartnerId } from '@triplock/payments';
import { withDeadline, type ReadinessCheck } from '@triplock/runtime';

/** What the check asks. */
export type CheckPostgresParts = {
  partners: Pick<Partners, 'ping' | 'warm'>;
  claims: Pick<Claims, 'read'>;
};

/** Leaves a check time to ask the claims too, before the admin server gives it up after 2 s. */
export const pingMs = 1_200;

/** Any id will do: when the claim store forgets, it forgets all buckets. */
export const anyId = deriveTxnId('payment', 'readyz' as PartnerId, 'readyz' as IdempotencyKey);

const degraded =
  'away: payments of partners known here are accepted, reads, new keys and webhook settings wait';

/**
 * PostgreSQL's part in `/readyz`. A warm gateway accepts without it and must not be taken out of
 * service. A cold one cannot: it knows no partner, or its claims forgot and the ledger has to
 * answer for them.
 */
export function checkPostgres({ partners, claims }: CheckPostgresParts): ReadinessCheck {
  return async () => {
    try {
      return await withDeadline(partners.ping(), { ms: pingMs, what: 'PostgreSQL' });
    } catch (error) {
      if (!partners.warm() || (await claims.read(anyId)).outcome === 'cold') throw error;
      return { degraded };
    }
  };
}
