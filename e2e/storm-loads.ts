import type { LedgerStore } from '@triplock/infra';

/** How much a storm sends, and how much of it must have been accepted for it to be one. */
export type StormLoad = {
  /** Payments a second while processes are killed. */
  killing: { perSecond: number; acceptedPerSecondMin: number };
  /** Payments a second while workers come and go, or a dispatcher stands still. */
  steady: { perSecond: number; acceptedMin: number };
  /** Partners at once while Kafka stands still, each so long idle after an answer. */
  still: { clients: number; idleMs: number; acceptedMin: number; refusedMin: number };
};

/**
 * By where the ledger is kept: what the emulator of Spanner posts on two cores is a fraction of
 * what PostgreSQL does (docs/ledgers.md), and the rest of a load would only wait in Kafka.
 */
export const stormLoads: Readonly<Record<LedgerStore, StormLoad>> = {
  postgres: {
    killing: { perSecond: 200, acceptedPerSecondMin: 20 },
    steady: { perSecond: 60, acceptedMin: 200 },
    still: { clients: 32, idleMs: 0, acceptedMin: 200, refusedMin: 64 },
  },
  spanner: {
    killing: { perSecond: 10, acceptedPerSecondMin: 2 },
    steady: { perSecond: 5, acceptedMin: 30 },
    still: { clients: 8, idleMs: 500, acceptedMin: 40, refusedMin: 16 },
  },
};
