import type { Claims } from '@triplock/claims';
import type { Ledger, FollowUps } from '@triplock/ledger';
import type {
  EventFeed,
  PartnerKeys,
  Settlements,
  TargetPolicy,
  WebhookDeliveries,
  WebhookEndpoints,
} from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import type { ListedProvider } from '@triplock/providers';
import type { CrashPoints, Logger, SealingKeys } from '@triplock/runtime';
import type { GroupCommit } from '@triplock/transport';
import type { LedgerQuestions } from './accept/ledger-questions.ts';
import type { LossRecovery } from './accept/loss-recovery.ts';
import type { ReadBack } from './accept/read-back.ts';
import type { Unposted } from './accept/unposted.ts';
import type { GatewayMetrics } from './http/metrics.ts';

/**
 * What accepting a transaction and answering for it stands on. main.ts makes the one that is
 * served; every function that needs more than one thing of it takes it as its first argument.
 */
export type Gateway = {
  /** Guard 1. */
  claims: Claims;
  /** What stands in for claims that their store lost. */
  recovery: LossRecovery;
  /** Which keys were used before they were lost. */
  readBack: ReadBack;
  /** What was accepted here and is perhaps not posted yet. */
  unposted: Unposted;
  /** The accepted topic. */
  log: GroupCommit;
  /** Who waits for either. */
  backlogs: Readonly<Record<'claims' | 'appends', Backlog>>;
  /** Who asks the database for what takes long. */
  turns: Turns;
  ledger: Ledger;
  /** Whether the ledger has what a lost claim may have been of. */
  questions: LedgerQuestions;
  /** Names the ledger's server; nothing while it is not known to have all that was ever posted. */
  wholeLedger(): Promise<string | undefined>;
  refunds: FollowUps;
  settlements: Settlements;
  events: EventFeed;
  endpoints: WebhookEndpoints;
  apiKeys: PartnerKeys;
  deliveries: WebhookDeliveries;
  /** They open what a customer has to do. */
  actionKeys: SealingKeys;
  /** Whom this system charges at. */
  offered: readonly ListedProvider[];
  /** Where webhooks may go; the sender judges by the same policy again. */
  targetPolicy: TargetPolicy;
  metrics: GatewayMetrics;
  crashPoints: CrashPoints;
  logger: Logger;
  /**
   * How long the stores may take for one request together, milliseconds, before it is answered with
   * a 503.
   */
  budgetMs: number;
};

/** Requests that wait for a store: by how long they do, the gateway knows that too many come. */
export type Backlog = {
  /** A partner's request begins to wait. Call what it gives once it waits no more. */
  enter(partner: string): () => void;
  /** Whether as many wait as the store gets through in time, and this partner has its share. */
  isBehind(partner: string): boolean;
  /** How many may wait; infinite while nobody waits for long. */
  limit(): number;
};

/**
 * Partners' turns at the database, for what may take it long: lists, settlements, balances, and
 * what changes settings. Whoever asks for one thing waits for what is at work, and not for all that
 * others asked for before.
 */
export type Turns = {
  /**
   * Does the work once it is the partner's turn; what had no turn in time is not begun.
   *
   * @throws Problem `rate_limited` when too much of the partner's waits already, and `unavailable`
   * when its turn did not come; DeadlineError when the work is not done in what is left; and as the
   * work does.
   */
  take<Result>(turn: Turn, work: () => Promise<Result>): Promise<Result>;
};

/**
 * Whose turn it is, what for in words, and how long waiting and work may take together. Who asks
 * for the `same` while others of the partner wait for it shares their turn, and what comes of it.
 */
export type Turn = { partnerId: PartnerId; what: string; withinMs: number; same?: string };
