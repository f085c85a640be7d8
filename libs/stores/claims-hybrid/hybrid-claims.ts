import { bucketCount } from '@triplock/contracts';
import { bucketOf, type TxnId } from '@triplock/payments';
import {
  openPostgresClaims,
  type PostgresClaims,
  type PostgresClaimsOptions,
} from '@triplock/claims-postgres';
import { connectCache } from './answer-cache.ts';

/** PostgreSQL and the cache before it; times in milliseconds. */
export type HybridClaimsOptions = PostgresClaimsOptions & {
  /** The Redis of the cache. It may evict. */
  cacheUrl: string;
  /** How long a request waits for the cache; 100 by default: a retry is worth no more. */
  cacheTimeoutMs?: number;
};

/**
 * Guard 1 on PostgreSQL with Redis before it. PostgreSQL decides every claim; Redis answers
 * retries, which come in storms, without asking it.
 *
 * Only what answers are made of is cached, of completed claims, by the first retry that misses it,
 * and only a request with its own fingerprint gets it. A completed claim never changes, so what the
 * cache holds was true and stays true as long as the claim lives; it expires with it. PostgreSQL
 * decides everything else, a fingerprint that differs included: where the two disagree it is right.
 * Losing the cache costs one more look per answer and changes none.
 *
 * @throws PostgresDurabilityError when PostgreSQL is there and a crash may lose claims.
 */
export async function openHybridClaims(options: HybridClaimsOptions): Promise<PostgresClaims> {
  const { cacheUrl: url, cacheTimeoutMs: timeoutMs = 100, namespace, logger } = options;
  const postgres = await openPostgresClaims(options);
  const cache = connectCache({ url, logger, timeoutMs });
  const keyOf = (txnId: TxnId) => `{${namespace}:${bucketOf(txnId, bucketCount)}}:answer:${txnId}`;

  return {
    ...postgres,
    async claim(request) {
      const { txnId, fingerprint } = request;
      const found = await cache.find(keyOf(txnId));
      if (found.outcome === 'hit' && found.fingerprint === fingerprint) {
        const { acceptedAtMs, responseVersion } = JSON.parse(found.answer) as Cached;
        return { outcome: 'completed', acceptedAt: new Date(acceptedAtMs), responseVersion };
      }
      const decided = await postgres.claim(request);
      if (found.outcome === 'miss' && decided.outcome === 'completed') {
        const { acceptedAt, responseVersion, lifeLeftMs } = decided;
        const cached: Cached = { acceptedAtMs: acceptedAt.getTime(), responseVersion };
        // The cache's time is from before PostgreSQL was asked, so this ends no later than the
        // claim.
        const untilMs = found.serverNowMs + Math.floor(lifeLeftMs);
        cache.keep(keyOf(txnId), { fingerprint, answer: JSON.stringify(cached), untilMs });
      }
      return decided;
    },
    async close() {
      await Promise.all([cache.close(), postgres.close()]);
    },
  };
}

/** What the answer to a completed claim is made of, besides the request. */
type Cached = { acceptedAtMs: number; responseVersion: number };
