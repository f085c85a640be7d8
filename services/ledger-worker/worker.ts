import type { Ledger, FollowUps, TakeDue, WakeDue } from '@triplock/ledger';
import type { FinalState, ProviderName, TransactionState } from '@triplock/payments';
import type { CircuitBreaker, Unknown } from '@triplock/provider';
import type { CrashPoints, Logger, SealingKeys, Slots } from '@triplock/runtime';
import type { DeadLetters } from '@triplock/transport';
import type { WorkerMetrics } from './metrics.ts';
import type { PostPayments } from './batch/posting.ts';

/** What all of the worker stands on; `main.ts` makes one. */
export type Worker = {
  ledger: Ledger;
  /** Posts payments; partitions share its statements. */
  post: PostPayments;
  followUps: FollowUps;
  takeDue: TakeDue;
  wakeDue: WakeDue;
  providers: Providers;
  /** What is at a provider, also after its batch went on; a shutdown waits for it. */
  inFlight: Set<Promise<unknown>>;
  deadLetters: DeadLetters;
  /** What a customer has to do is sealed with. */
  actionKeys: SealingKeys;
  limits: WorkerLimits;
  metrics: WorkerMetrics;
  crashPoints: CrashPoints;
  logger: Logger;
};

/**
 * One of the providers, with all that is its own: while it is away, slow or full, nothing of
 * another's waits.
 */
export type AskedProvider = {
  name: ProviderName;
  provider: CircuitBreaker;
  /** How many transactions are at it at once, for batches and the resolver together. */
  slots: Slots;
  /** Of what is at it, what its batch did not wait for to the end. */
  outlasting: Set<Promise<unknown>>;
};

/** The providers of a worker. */
export type Providers = {
  /** Every one of the list, also one that this worker has no settings for. */
  all: readonly AskedProvider[];
  /** Those of them at which this system charges. */
  offered: readonly AskedProvider[];
  /** By the name on a row; of one that left the list nothing can be asked. */
  named(name: ProviderName): AskedProvider;
};

/** A worker that is about to ask one of its providers. */
export type WorkerAt = Worker & AskedProvider;

/** Limits of the worker, by its settings; times in milliseconds. */
export type WorkerLimits = {
  /** Payments of one statement. */
  postRowsMax: number;
  /** How long a batch waits for a slot where very much does. */
  slotWaitMs: number;
  /** How long a batch waits for the end of its charge, which goes on without it. */
  handOverMs: number;
  /** How long a customer may take to authenticate, from the confirmation, by the ledger's clock. */
  actionExpiresMs: number;
};

/** What one attempt to charge a payment, or to give a refund back, came to. */
export type AttemptOutcome =
  /** This call made it final. */
  | { outcome: 'settled'; state: FinalState }
  /**
   * The customer, the partner or the provider has yet to decide; the resolver looks again when it
   * is due.
   */
  | { outcome: 'waiting' }
  /** Nobody knows; the resolver looks when it is due, or whoever tries again before. */
  | { outcome: 'unknown'; because: Unknown }
  /** Another worker is at it, or has finished it. */
  | { outcome: 'taken-over'; state: TransactionState }
  /** It will not come to its end before a person has acted; pending until then. */
  | Stuck;

/**
 * A transaction that nothing brings to its end by itself. `unreadable`: its row makes no sense;
 * `unstorable`: the ledger refuses to store how it ended.
 */
export type Stuck = { outcome: 'stuck'; because: 'unreadable' | 'unstorable' };
