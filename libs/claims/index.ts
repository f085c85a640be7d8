export * from './claims.ts';
export { DynamoTableError } from './dynamodb/check-table.ts';
export { createClaimsTable } from './dynamodb/create-claims-table.ts';
export { openDynamoClaims, type DynamoClaimsOptions } from './dynamodb/dynamo-claims.ts';
export type { DynamoPlace } from './dynamodb/dynamo-place.ts';
export { openHybridClaims, type HybridClaimsOptions } from './hybrid/hybrid-claims.ts';
export { openNoClaims } from './no-claims.ts';
export {
  openPostgresClaims,
  type PostgresClaims,
  type PostgresClaimsOptions,
} from './postgres/postgres-claims.ts';
export { PostgresDurabilityError } from './postgres/check-durability.ts';
export { openRedisClaims, type RedisClaimsOptions } from './redis/redis-claims.ts';
export { RedisPolicyError } from './redis/watch-server.ts';
export { connectRedis } from './redis/connect-redis.ts';
export { openTable } from './dynamodb/open-table.ts';
export { leavesAt, type Item } from './dynamodb/item.ts';
export type { Condition, Table, Written } from './dynamodb/connect-dynamo.ts';
export type { Moment } from './dynamodb/service-clock.ts';
export { connectCache } from './hybrid/connect-cache.ts';
