export * from './claims.ts';
export { releaseLate } from './late-releases.ts';
export { openRedisClaims, type RedisClaimsOptions } from './redis/redis-claims.ts';
export { connectRedis, RedisPolicyError, redisSpan } from './redis/redis-connection.ts';
