/** A claim as its store holds it. */
export type ClaimSeen = {
  state: string;
  partner: string;
  fingerprint: string;
  acceptedAt: Date;
  /** How long it still lives. */
  leftMs: number;
};

/**
 * A claim store reached past the gateways: operators look at a claim, and the demo and tests do to
 * it what time and losses do.
 */
export type ClaimsInspector = {
  /** A claim that lives; nothing when there is none. */
  look(txnId: string): Promise<ClaimSeen | undefined>;
  /** Ends a claim's life at once, as 24 hours do; returns whether there was one. */
  expire(txnId: string): Promise<boolean>;
  /** Loses all that the store holds; returns by what, and how many claims and markers it cost. */
  forget(): Promise<Forgotten>;
  /** How many claims and markers it holds. */
  count(): Promise<number>;
  /** Makes its warm markers so much older, as time without a loss does; returns how many. */
  ageMarkers(ms: number): Promise<number>;
  /** What one of its claims takes, all claims being alike: see each store. */
  bytesPerClaim(): Promise<ClaimBytes>;
  close(): Promise<void>;
};

/** For its day, and for the short time in which a read shows what stands beside it. */
export type ClaimBytes = { claim: number; shown: number };

/** What was done to a store, e.g. `FLUSHALL`, and how many keys it cost. */
export type Forgotten = { command: string; keys: number };
