import { url, withDefault } from '@triplock/runtime';
import type { ClaimStore } from '../claim-store.ts';
import { openRedisClaims } from './redis-claims.ts';
import { inspectRedisClaims } from './redis-inspector.ts';
import { openRedisWalk } from './redis-walk.ts';

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
  open: ({ REDIS_URL }, options) => openRedisClaims({ ...options, url: REDIS_URL! }),
  walk: ({ REDIS_URL }, options) => openRedisWalk({ ...options, url: REDIS_URL! }),
  inspect: ({ REDIS_URL }, options) => inspectRedisClaims({ ...options, url: REDIS_URL! }),
} as const satisfies ClaimStore<typeof settings>;
