import type { Endpoints } from '@triplock/launcher';

/** How much a storm sends, and how much of it must have been accepted for it to be one. */
export type StormLoad = {
  /** Payments a second while processes are killed. */
  killing: { perSecond: number; acceptedPerSecondMin: number };
  /** Payments a second while workers come and go, or a dispatcher stands still. */
  steady: { perSecond: number; acceptedMin: number };
  /** Partners at once while Kafka stands still, each so long idle after an answer. */
  still: { clients: number; idleMs: number; acceptedMin: number; refusedMin: number };
  /** Requests under one key at once. */
  identical: number;
};

const usual: StormLoad = {
  killing: { perSecond: 200, acceptedPerSecondMin: 20 },
  steady: { perSecond: 60, acceptedMin: 200 },
  still: { clients: 32, idleMs: 0, acceptedMin: 200, refusedMin: 64 },
  identical: 1_000,
};

/** DynamoDB Local makes 50 to 200 claims a second on two cores (docs/stores.md). */
const onDynamoDbLocal: StormLoad = {
  killing: { perSecond: 40, acceptedPerSecondMin: 5 },
  steady: { perSecond: 20, acceptedMin: 60 },
  still: { clients: 16, idleMs: 100, acceptedMin: 100, refusedMin: 32 },
  identical: 100,
};

/**
 * What Spanner's emulator posts on two cores is a fraction of what PostgreSQL does
 * (docs/stores.md), and the rest of a load would only wait in Kafka.
 */
const onSpannerEmulator: StormLoad = {
  killing: { perSecond: 10, acceptedPerSecondMin: 2 },
  steady: { perSecond: 5, acceptedMin: 30 },
  still: { clients: 8, idleMs: 500, acceptedMin: 40, refusedMin: 16 },
  identical: 100,
};

/** What a system can bear: emulators stand for stores that bear more. */
export function stormLoadOf({ ledger, claims }: Pick<Endpoints, 'ledger' | 'claims'>): StormLoad {
  if (ledger === 'spanner') return onSpannerEmulator;
  return claims === 'dynamodb' ? onDynamoDbLocal : usual;
}
