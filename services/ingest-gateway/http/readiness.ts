import { type Claims, ClaimsUnavailableError } from '@triplock/claims';
import type { OpenedLedger } from '@triplock/ledgers';
import type { Partners } from '@triplock/partners';
import { deriveTxnId, type IdempotencyKey, type PartnerId } from '@triplock/payments';
import { withDeadline, type AdminRoute, type ReadinessCheck } from '@triplock/runtime';

// Leaves a check time to ask the claims too, before the admin server gives it up after 2 s.
const pingMs = 1_200;

/** As in the alert ClaimsNearlyFull. */
const nearlyFull = 0.8;

/**
 * The claim store's part in `/readyz`. Once its memory is full it takes no new key, of no partner:
 * a gateway says so before, and goes on.
 */
export function checkClaims(claims: Claims): ReadinessCheck {
  return async () => {
    await claims.ping();
    const { usedBytes, limitBytes = Infinity } = claims.memory?.() ?? { usedBytes: 0 };
    if (usedBytes < nearlyFull * limitBytes) return;
    const percent = Math.floor((100 * usedBytes) / limitBytes);
    return { degraded: `nearly full: ${percent} % of its memory is used; when it is, all wait` };
  };
}

/**
 * PostgreSQL's part in `/readyz`. A warm gateway accepts without it and must not be taken out of
 * service. A cold one cannot: it knows no partner, or its claims were lost and the ledger has to
 * answer for them.
 */
export function checkPostgres(partners: Partners, claims: Claims): ReadinessCheck {
  return async () => {
    try {
      return await withDeadline(partners.ping(), { ms: pingMs, what: 'PostgreSQL' });
    } catch (error) {
      if (!partners.warm() || (await isCold(claims))) throw error;
      return {
        degraded:
          'away: payments of partners known here are accepted, reads, new keys and webhook ' +
          'settings wait',
      };
    }
  };
}

/**
 * The part of a ledger outside PostgreSQL in `/readyz`: a gateway whose claims are warm accepts
 * without it, one whose claims were lost needs the ledger to answer for them.
 */
export function checkLedger(ledger: OpenedLedger['ledger'], claims: Claims): ReadinessCheck {
  return async () => {
    try {
      return await withDeadline(ledger.ping(), { ms: pingMs, what: 'the ledger' });
    } catch (error) {
      if (await isCold(claims)) throw error;
      return { degraded: 'away: payments are accepted, reads wait' };
    }
  };
}

/**
 * `GET /claims` for operators: `warm`, or `cold` where claims were lost and the ledger answers for
 * them.
 */
export function showClaimState(claims: Claims): AdminRoute {
  return async () => {
    try {
      return { status: 200, body: { state: (await isCold(claims)) ? 'cold' : 'warm' } };
    } catch (error) {
      if (!(error instanceof ClaimsUnavailableError)) throw error;
      return { status: 503, body: { error: error.message } };
    }
  };
}

// Any id will do: a claim store that loses claims loses them in all buckets.
const anyId = deriveTxnId('payment', 'readyz' as PartnerId, 'readyz' as IdempotencyKey);

async function isCold(claims: Claims): Promise<boolean> {
  return (await claims.read(anyId)).outcome === 'cold';
}
