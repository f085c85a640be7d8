import { redisStore, type ClaimsInspector, type ClaimStore } from '@triplock/claims';
import { postgresStore, reaped } from '@triplock/claims-postgres';

const settings = { ...postgresStore.settings, ...redisStore.settings };

/** Claims in PostgreSQL, with Redis before it. */
export const hybridStore = {
  title: 'PostgreSQL, with Redis before it',
  parts: ['postgres', 'redis'],
  settings,
  // Who only reads has all of them in PostgreSQL.
  needs: { claims: ['CLAIMS_DATABASE_URL', 'REDIS_URL'], walk: ['CLAIMS_DATABASE_URL'] },
  advice: { ...postgresStore.advice, ...redisStore.advice },
  settingsAt: (servers) => ({
    ...postgresStore.settingsAt(servers),
    ...redisStore.settingsAt(servers),
  }),
  open: async ({ CLAIMS_DATABASE_URL, REDIS_URL }, options) => {
    const { openHybridClaims } = await import('./hybrid-claims.ts');
    const cached = { ...options, url: CLAIMS_DATABASE_URL!, cacheUrl: REDIS_URL! };
    return reaped(await openHybridClaims(cached), options);
  },
  walk: postgresStore.walk,
  inspect: async (given, options) => {
    const claims = await postgresStore.inspect(given, options);
    if (given.REDIS_URL === undefined) return claims;
    return withCache(claims, await redisStore.inspect(given, options));
  },
} as const satisfies ClaimStore<typeof settings>;

/** What ends in PostgreSQL ends in the cache before it too. */
function withCache(postgres: ClaimsInspector, cache: ClaimsInspector): ClaimsInspector {
  return {
    ...postgres,
    expire: async (txnId) => {
      await cache.expire(txnId);
      return postgres.expire(txnId);
    },
    forget: async () => {
      const [inCache, { command, keys }] = [await cache.forget(), await postgres.forget()];
      return { command: `${inCache.command} and ${command}`, keys };
    },
    close: async () => void (await Promise.all([cache.close(), postgres.close()])),
  };
}
