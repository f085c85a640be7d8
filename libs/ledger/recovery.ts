/**
 * A time to which the ledger was set back, or may have been, of which not every dispute is noted
 * again yet.
 */
export type OpenRewind = {
  id: bigint;
  /** Before the first commit that was lost. */
  since: Date;
  /** When it was noted, by the store's clock. */
  doneAt: Date;
};

/**
 * What workers do once the ledger was set back to an earlier moment: `rewind` was run, or they
 * found that it lacks what was posted.
 */
export type Recovery = {
  /**
   * Notes that commits since then are lost, before anything of them is decided anew: the provider
   * is asked first for what it did of them.
   */
  noteLost(since: Date): Promise<void>;
  /** The oldest of them; nothing once the provider was asked for all. */
  openRewind(): Promise<OpenRewind | undefined>;
  /** Every dispute since then is noted. */
  disputesAsked(rewind: OpenRewind): Promise<void>;
};
