import { type Claims, ClaimsUnavailableError } from '@triplock/claims';
import type { OpenedLedger } from '@triplock/ledgers';
import type { Partners } from '@triplock/partners';
import { withDeadline, type AdminRoute, type ReadinessCheck } from '@triplock/runtime';
import { describeLeft, type ReadBack } from '../accept/read-back.ts';

// Leaves a check time to ask the claims too, before the admin server gives it up after 2 s.
const pingMs = 1_200;

/** As in the alert ClaimsNearlyFull. */
const nearlyFull = 0.8;

/**
 * The claim store's part in `/readyz`. Once its memory is full it takes no new key, of no partner:
 * a gateway says so before, and goes on; and so it does while lost claims are not read back.
 */
export function checkClaims(claims: Claims, readBack: ReadBack): ReadinessCheck {
  return async () => {
    await claims.ping();
    const { usedBytes, limitBytes = Infinity } = claims.memory?.() ?? { usedBytes: 0 };
    if (usedBytes >= nearlyFull * limitBytes) {
      const percent = Math.floor((100 * usedBytes) / limitBytes);
      return { degraded: `nearly full: ${percent} % of its memory is used; when it is, all wait` };
    }
    return (await readBack.isCold()) ? { degraded: `cold: ${leftOf(readBack)}` } : undefined;
  };
}

/**
 * PostgreSQL's part in `/readyz`. A warm gateway accepts without it and must not be taken out of
 * service. A cold one cannot: it knows no partner, or its claims were lost and not read back, and
 * the ledger has to answer for them.
 */
export function checkPostgres(partners: Partners, readBack: ReadBack): ReadinessCheck {
  return async () => {
    try {
      return await withDeadline(partners.ping(), { ms: pingMs, what: 'PostgreSQL' });
    } catch (error) {
      if (!partners.warm() || (await readBack.isCold())) throw error;
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
 * without it, one whose claims were lost and not read back needs the ledger to answer for them.
 */
export function checkLedger(ledger: OpenedLedger['ledger'], readBack: ReadBack): ReadinessCheck {
  return async () => {
    try {
      return await withDeadline(ledger.ping(), { ms: pingMs, what: 'the ledger' });
    } catch (error) {
      if (await readBack.isCold()) throw error;
      return { degraded: 'away: payments are accepted, reads wait' };
    }
  };
}

/**
 * `GET /claims` for operators: `warm`, or `cold` where claims were lost and the ledger is asked
 * about each new key, with what is left to do until it is not.
 */
export function showClaimState(readBack: ReadBack): AdminRoute {
  return async () => {
    try {
      const isCold = await readBack.isCold();
      const body = isCold ? { state: 'cold', left: leftOf(readBack) } : { state: 'warm' };
      return { status: 200, body };
    } catch (error) {
      if (!(error instanceof ClaimsUnavailableError)) throw error;
      return { status: 503, body: { error: error.message } };
    }
  };
}

/** The last look may have been before the loss. */
function leftOf({ state }: ReadBack): string {
  const seen = state();
  return describeLeft(seen.state === 'warm' ? { state: 'cold', step: 'waiting' } : seen);
}
