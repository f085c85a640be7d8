import type { EncodedRecord } from '@triplock/contracts';

/** Offsets by partition: the next offset after the last record, or after the last committed one. */
export type Offsets = ReadonlyMap<number, bigint>;

/** Thrown before anything was sent: the record is certainly not in the topic. */
export class ProduceRefusedError extends Error {
  override name = 'ProduceRefusedError';
}

/**
 * The record may or may not be in the topic. Unknown is not failed: a retry may duplicate
 * it.
 */
export class ProduceUnknownError extends Error {
  override name = 'ProduceUnknownError';
}

/**
 * Appends records to one topic by group commit: while one `sendBatch` is outstanding, records
 * gather for the next.
 */
export type GroupCommit = {
  /**
   * Resolves when every in-sync replica has the record (acks=all).
   * @throws ProduceRefusedError when the waiting room is full or the producer is closing.
   * @throws ProduceUnknownError after a rejected send or when `timeoutMs` is over.
   */
  append(record: EncodedRecord): Promise<void>;
  ping(): Promise<void>;
  /** Sends what waits, then disconnects. */
  close(): Promise<void>;
};

/** A record as it came from the topic, bytes untouched. */
export type ReceivedRecord = {
  topic: string;
  partition: number;
  offset: bigint;
  key: Buffer | null;
  value: Buffer | null;
  headers: Readonly<Record<string, Buffer | readonly Buffer[] | undefined>>;
  timestamp: string;
};

/** Records of one partition in order. */
export type RecordBatch = {
  partition: number;
  records: readonly ReceivedRecord[];
  /** The offset after the partition's last record, as it was when these were fetched. */
  end: bigint;
  /**
   * Keeps the session alive; call it between long steps. Throws when the partition was taken away.
   */
  heartbeat(): Promise<void>;
  /**
   * True once the partition belongs to somebody else: finish nothing more. A close does not make it
   * true, because it waits for the batch in hand.
   */
  isStale(): boolean;
};

/**
 * A consumer that commits a batch's offsets only after `handle` resolved. When `handle` rejects,
 * nothing is committed and the batch comes again after a backoff; the consumer restarts itself
 * after every error, a non-retriable one too.
 */
export type RecordConsumer = {
  ping(): Promise<void>;
  close(): Promise<void>;
};
