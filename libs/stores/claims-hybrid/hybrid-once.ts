import type { Queryable } from '@triplock/postgres';
import type { Logger } from '@triplock/runtime';
import {
  openPostgresOnce,
  type OnceKey,
  type OpenedOnceStore,
  type ReapedOnceStore,
  type StartOutcome,
} from '@triplock/once';
import { connectCache } from './hybrid-claims.ts';

/** PostgreSQL and the cache before it. */
export type HybridOnceOptions = {
  /** Where the table `once` is (onceMigrations). */
  database: Queryable;
  /** The Redis of the cache. It may evict. */
  cacheUrl: string;
  /** Begins every key of the cache. */
  namespace: string;
  logger: Logger;
  /** How long a start waits for the cache, milliseconds; 100 by default. */
  cacheTimeoutMs?: number;
};

type Ended = Extract<StartOutcome, { result: string }>;

/**
 * Effects remembered in PostgreSQL, with their results in Redis before it. PostgreSQL decides every
 * start; a result never changes while its key lives, so the cache answers repeats of the same
 * request, and only those. Losing the cache costs one more look per result and changes none.
 */
export function openHybridOnce(options: HybridOnceOptions): OpenedOnceStore & ReapedOnceStore {
  const { cacheUrl: url, cacheTimeoutMs: timeoutMs = 100, namespace, logger } = options;
  const postgres = openPostgresOnce(options.database);
  const cache = connectCache({ url, logger, timeoutMs });
  const keyOf = ({ scope, key }: OnceKey) => `{${namespace}:once:${scope.length}:${scope}:${key}}`;

  return {
    ...postgres,
    async start(step) {
      const found = await cache.find(keyOf(step));
      if (found.outcome === 'hit' && found.fingerprint === step.fingerprint) {
        return JSON.parse(found.answer) as Ended;
      }
      const decided = await postgres.start(step);
      const isEnded = decided.outcome === 'completed' || decided.outcome === 'failed';
      if (found.outcome === 'miss' && isEnded) {
        const { outcome, result, lifeLeftMs } = decided;
        const answer = JSON.stringify({ outcome, result } satisfies Ended);
        // The cache's time is from before PostgreSQL was asked, so this ends no later than the key.
        const untilMs = found.serverNowMs + Math.floor(lifeLeftMs);
        cache.keep(keyOf(step), { fingerprint: step.fingerprint, answer, untilMs });
      }
      return decided;
    },
    close: () => cache.close(),
  };
}
