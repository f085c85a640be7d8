import { openNoClaims, openRedisClaims, type Claims } from '@triplock/claims';
import type { Logger } from '@triplock/runtime';
import type { Config } from './config.ts';

type ClaimSettings = Pick<Config, 'CLAIMS' | 'REDIS_URL' | 'CLAIM_NAMESPACE'>;

/**
 * Opens the claim store that the settings name.
 *
 * @throws RedisPolicyError when Redis is there and may evict claims.
 */
export async function openClaims(config: ClaimSettings, logger: Logger): Promise<Claims> {
  switch (config.CLAIMS) {
    case 'redis':
      return openRedisClaims({
        url: config.REDIS_URL,
        namespace: config.CLAIM_NAMESPACE,
        logger,
      });
    case 'none':
      logger.warn('CLAIMS is none: every request counts as the first under its key');
      return openNoClaims();
    default:
      return config.CLAIMS satisfies never;
  }
}
