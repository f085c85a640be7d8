/**
 * What is known of the server that has the ledger now: that it has all that was told (`known`),
 * that it lacks some of it (`set-back`), or nothing yet, because it was not seen before
 * (`unknown`).
 */
export type ContinuityState = 'known' | 'unknown' | 'set-back';

/** Next offsets of the archive, by partition: every event before them was in the ledger. */
export type ArchivedUntil = ReadonlyMap<number, bigint>;

/** What a look at the ledger's server found. */
export type ServerLook = {
  state: ContinuityState;
  /** Its name; another one after a failover, a restore or a start. */
  server: string;
  archivedUntil: ArchivedUntil;
};

/**
 * Whether the ledger has all that was told. Workers decide nothing on a server before that is
 * known: the ledger itself refuses it.
 */
export type Continuity = {
  look(): Promise<ServerLook>;
  /** How many of these archived events the ledger does not have, word for word. */
  countLacking(texts: readonly Buffer[]): Promise<number>;
  /**
   * Notes that a server has every event that was archived until then, and that decisions may go
   * on. False when another server answers by now, or when it is set back.
   */
  noteWhole(server: string, until: ArchivedUntil): Promise<boolean>;
  /** Notes that a server lacks something, until `rewind` has brought it back. */
  noteSetBack(server: string): Promise<void>;
};
