import type { AcceptedFollowUp, AcceptedPayment } from '@triplock/payments';

/**
 * What is known of the server that has the ledger now. `known`: it has all that was told and all
 * that was accepted before the group of the workers. `unread`: it has all that was told, and what
 * came since the last note is to be read again. `set-back`: it lacks some of what was told.
 * `unknown`: nothing yet, because it was not seen before.
 */
export type ContinuityState = 'known' | 'unread' | 'unknown' | 'set-back';

/** Next offsets of a topic, by partition. */
type NextOffsets = ReadonlyMap<number, bigint>;

/** Up to where the ledger has what is in Kafka. */
export type NotedUntil = {
  /** Every event that was archived before is in the outbox, or has left it since. */
  archived: NextOffsets;
  /** Every record that was accepted before is posted, or a dead letter. */
  posted: NextOffsets;
};

/** What a look at the ledger's server found. */
export type ServerLook = {
  state: ContinuityState;
  /** Its name; another one after a failover, a restore or a start. */
  server: string;
  until: NotedUntil;
};

/**
 * Whether the ledger has all that was told, and all that was accepted. Workers decide nothing on a
 * server before the first is known: the ledger itself refuses it.
 */
export type Continuity = {
  look(): Promise<ServerLook>;
  /** How many of these archived events the ledger does not have, word for word. */
  countLacking(texts: readonly Buffer[]): Promise<number>;
  /** Has dispatchers publish archived events once more, byte for byte, that the ledger has. */
  publishAgain(texts: readonly Buffer[]): Promise<void>;
  /** Those of these requests that are neither posted nor reported as losing their key. */
  findUnposted<Request extends AcceptedPayment | AcceptedFollowUp>(
    requests: readonly Request[],
  ): Promise<Request[]>;
  /**
   * Notes that a server that was looked at has every event that was archived until then, and that
   * decisions may go on; and, where it is known, that every record is posted that was accepted
   * until then. False when another server answers by now, when it is set back, when it is in doubt
   * since the look, or when another note was written since: that may be the newer one, and whoever
   * has seen it would take this server for one that was put back. Of a server that was not known
   * before it opens a rewind for disputes alone (recovery.ts).
   */
  noteWhole(
    look: Pick<ServerLook, 'server' | 'until'>,
    until: Pick<NotedUntil, 'archived'> & Partial<NotedUntil>,
  ): Promise<boolean>;
  /**
   * Notes that every record that was accepted until then is posted on this server, which is noted
   * as whole. False as above.
   */
  notePosted(server: string, posted: NextOffsets): Promise<boolean>;
  /** Takes back what is noted of a server: it is looked at as one that was not seen before. */
  doubt(server: string): Promise<void>;
  /** Notes that a server lacks something, until `rewind` has brought it back. */
  noteSetBack(server: string): Promise<void>;
};
