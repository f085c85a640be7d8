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
export {
  EffectFailedError,
  once,
  resultBytesMax,
  type EffectContext,
  type EffectEnd,
  type EffectOwner,
  type OnceKey,
  type OnceOutcome,
  type OnceStore,
  type OpenedOnceStore,
  type ReapedOnceStore,
  type StartOutcome,
} from './once.ts';
export { onceInTransaction } from './once-in-transaction.ts';
export { onceMigrations, openPostgresOnce } from './postgres-once.ts';
export { openRedisOnce, type RedisOnceOptions } from './redis/redis-once.ts';
