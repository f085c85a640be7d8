import type { Claims } from '@triplock/claims';
import type { GroupCommit } from '@triplock/transport';
import type { GatewayMetrics } from './metrics.ts';

/** The same claim store, each claim timed and counted by its answer. */
export function measureClaims(
  claims: Claims,
  metrics: Pick<GatewayMetrics, 'claims' | 'claimSeconds'>,
): Claims {
  return {
    ...claims,
    claim: async (request) => {
      const startedMs = performance.now();
      try {
        const answer = await claims.claim(request);
        metrics.claims.count(answer.outcome);
        return answer;
      } catch (error) {
        metrics.claims.count('unavailable');
        throw error;
      } finally {
        metrics.claimSeconds.observe((performance.now() - startedMs) / 1_000);
      }
    },
  };
}

/** The same log, each append timed. */
export function measureAppends(
  log: GroupCommit,
  { appendSeconds }: Pick<GatewayMetrics, 'appendSeconds'>,
): GroupCommit {
  return {
    ...log,
    append: (record) =>
      appendSeconds.time(
        () => log.append(record),
        () => 'appended',
        'failed',
      ),
  };
}
