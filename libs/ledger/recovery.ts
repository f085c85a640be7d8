/** A time to which the ledger was set back, of which not every dispute is noted again yet. */
export type OpenRewind = {
  id: bigint;
  /** Before the first commit that was lost. */
  since: Date;
  /** When it was noted, by the store's clock. */
  doneAt: Date;
};

/** What workers do once the ledger was set back to an earlier moment and `rewind` was run. */
export type Recovery = {
  /** The oldest of them; nothing once the provider was asked for all. */
  openRewind(): Promise<OpenRewind | undefined>;
  /** Every dispute since then is noted. */
  disputesAsked(rewind: OpenRewind): Promise<void>;
};
