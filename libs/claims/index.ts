export * from './claims.ts';
export { releaseLate } from './late-releases.ts';
export { openRedisClaims, type RedisClaimsOptions } from './redis/redis-claims.ts';
export { redisPackage } from './redis/package.ts';
export { openRedisWalk } from './redis/redis-walk.ts';
export { connectRedis, redisSpan, takeEach } from './redis/redis-connection.ts';
export { RedisPolicyError } from './redis/redis-server.ts';
