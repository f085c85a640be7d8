export * from './claims.ts';
export { openNoClaims } from './no-claims.ts';
export {
  openPostgresClaims,
  type PostgresClaims,
  type PostgresClaimsOptions,
} from './postgres/postgres-claims.ts';
export { openRedisClaims, type RedisClaimsOptions } from './redis/redis-claims.ts';
export { RedisPolicyError } from './redis/watch-server.ts';
