import { url, withDefault } from '@triplock/runtime';
import type { ClaimStore } from '../claim-store.ts';

const settings = {
  /** Its maxmemory-policy has to be noeviction, but where it is only a cache. */
  REDIS_URL: withDefault(url(['redis:', 'rediss:']), undefined),
};

/** Claims in Redis, or in what speaks its protocol. */
export const redisStore = {
  title: 'Redis',
  parts: ['redis'],
  settings,
  needs: { claims: ['REDIS_URL'], walk: ['REDIS_URL'] },
  advice: { REDIS_URL: "the claim store's URL" },
  settingsAt: ({ redis }) => ({ REDIS_URL: redis }),
  open: async ({ REDIS_URL }, options) => {
    const { openRedisClaims } = await import('./redis-claims.ts');
    return openRedisClaims({ ...options, url: REDIS_URL! });
  },
  walk: async ({ REDIS_URL }, options) => {
    const { openRedisWalk } = await import('./redis-walk.ts');
    return openRedisWalk({ ...options, url: REDIS_URL! });
  },
  inspect: async ({ REDIS_URL }, options) => {
    const { inspectRedisClaims } = await import('./redis-inspector.ts');
    return inspectRedisClaims({ ...options, url: REDIS_URL! });
  },
} as const satisfies ClaimStore<typeof settings>;
