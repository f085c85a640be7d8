export * from './claims.ts';
export { openNoClaims } from './no-claims.ts';
export { connectRedis } from './redis/connect-redis.ts';
export { openRedisClaims, type RedisClaimsOptions } from './redis/redis-claims.ts';
export { redisSpan } from './redis/redis-span.ts';
export { RedisPolicyError } from './redis/watch-server.ts';
export { releaseLate } from './release-late.ts';
