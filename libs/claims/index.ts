export * from './claims.ts';
export { DynamoTableError } from './dynamodb/check-table.ts';
export { createClaimsTable } from './dynamodb/create-claims-table.ts';
export { openDynamoClaims, type DynamoClaimsOptions } from './dynamodb/dynamo-claims.ts';
export type { DynamoPlace } from './dynamodb/dynamo-place.ts';
export { openHybridClaims, type HybridClaimsOptions } from './hybrid/hybrid-claims.ts';
export { openNoClaims } from './no-claims.ts';
export {
  EffectFailedError,
  resultBytesMax,
  type EffectContext,
  type OnceKey,
  type OnceOutcome,
} from './once/effect.ts';
export {
  EffectInFlightError,
  idempotentConsumer,
  type ConsumedRecord,
  type IdempotentConsumerOptions,
} from './once/idempotent-consumer.ts';
export {
  idempotentRoute,
  type IdempotentRouteOptions,
  type KeptAnswer,
  type RoutedReply,
  type RoutedRequest,
} from './once/idempotent-route.ts';
export { onceInTransaction } from './once/once-in-transaction.ts';
export { openDynamoOnce, type DynamoOnceOptions } from './once/dynamodb/dynamo-once.ts';
export { openHybridOnce, type HybridOnceOptions } from './once/hybrid/hybrid-once.ts';
export type {
  EffectEnd,
  EffectOwner,
  OnceStore,
  OpenedOnceStore,
  ReapedOnceStore,
  StartOutcome,
} from './once/once-store.ts';
export { once } from './once/once.ts';
export { onceMigrations, openPostgresOnce } from './once/postgres-once.ts';
export { openRedisOnce, type RedisOnceOptions } from './once/redis/redis-once.ts';
export {
  openPostgresClaims,
  type PostgresClaims,
  type PostgresClaimsOptions,
} from './postgres/postgres-claims.ts';
export { PostgresDurabilityError } from './postgres/check-durability.ts';
export { openRedisClaims, type RedisClaimsOptions } from './redis/redis-claims.ts';
export { RedisPolicyError } from './redis/watch-server.ts';
