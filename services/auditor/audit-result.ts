import type { PartnerSums } from './sums.ts';

/** Ids that a check found, 100 at most. */
export type Finding = { check: string; ids: readonly string[] };

/** Kafka records that are in a topic and that its consumer has not finished. */
export type Lag = { worker: number; accepted: number; deadLetters: number };

/** How much there is of everything; see sum and count statements for what each one means. */
export type AuditCounts = Record<
  | 'accepted'
  | 'ledger'
  | 'deadLettered'
  | 'keyConflicts'
  | 'charges'
  | 'events'
  | 'published'
  | 'inbox'
  | 'deliveries'
  | 'unwanted',
  number
>;

/** A part that could not be asked, so that nothing is known of what it would have shown. */
export type NotCompared = { part: 'provider'; why: string; next: string };

/** What an audit says: the body of `GET /audit`. */
export type AuditResult = {
  /** No drift. It is the last word only when everything has `settledDown`. */
  ok: boolean;
  /** Nothing is in flight: no lag, and no check that is still waiting for something. */
  settledDown: boolean;
  counts: AuditCounts;
  sums: readonly PartnerSums[];
  /**
   * What is wrong and cannot come right by waiting; with `final`, what has not come right by now.
   */
  drift: readonly Finding[];
  inFlight: { lag: Lag; waiting: readonly Finding[] };
  /** What this is no verdict about; in the end that is drift as well. */
  notCompared: readonly NotCompared[];
};
