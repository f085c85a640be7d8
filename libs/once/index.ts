export {
  EffectFailedError,
  resultBytesMax,
  type EffectContext,
  type OnceKey,
  type OnceOutcome,
} from './effect.ts';
export {
  EffectInFlightError,
  idempotentConsumer,
  type ConsumedRecord,
  type IdempotentConsumerOptions,
} from './idempotent-consumer.ts';
export {
  idempotentRoute,
  type IdempotentRouteOptions,
  type KeptAnswer,
  type RoutedReply,
  type RoutedRequest,
} from './idempotent-route.ts';
export { onceInTransaction } from './once-in-transaction.ts';
export { openDynamoOnce, type DynamoOnceOptions } from './dynamodb/dynamo-once.ts';
export { openHybridOnce, type HybridOnceOptions } from './hybrid/hybrid-once.ts';
export type {
  EffectEnd,
  EffectOwner,
  OnceStore,
  OpenedOnceStore,
  ReapedOnceStore,
  StartOutcome,
} from './once-store.ts';
export { once } from './once.ts';
export { onceMigrations, openPostgresOnce } from './postgres-once.ts';
export { openRedisOnce, type RedisOnceOptions } from './redis/redis-once.ts';
