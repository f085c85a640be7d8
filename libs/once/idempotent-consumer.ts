import { createHash } from 'node:crypto';
import type { Database, Queryable } from '@triplock/postgres';
import { EffectFailedError } from './once.ts';
import { onceInTransaction } from './once-in-transaction.ts';

/** A record as a consumer gets it; what kafkajs gives to `eachMessage` fits. */
export type ConsumedRecord = {
  topic: string;
  partition: number;
  message: { key: Buffer | null; offset: string; value: Buffer | null };
};

/** How a consumer remembers what took effect. */
export type IdempotentConsumerOptions<Consumed extends ConsumedRecord> = {
  database: Database;
  /** Names the consumer: two of them do not see each other's keys. */
  scope: string;
  /** Longer than records can be read, or one that is read again takes effect again. */
  keepMs: number;
  /**
   * How long the topic keeps records, its `retention.ms`; what the broker says, and not a guess.
   */
  retentionMs: number;
  /**
   * How long a segment of it takes records, its `segment.ms`. Kafka deletes whole segments, once
   * the newest record of one is old enough, so the first one of a slow topic can be read until
   * `retentionMs` and `segmentMs` are over.
   */
  segmentMs: number;
  /**
   * What a record is known by: an id that its producer gave, such as an order's, from its key, a
   * header or its value. Its offset is none: a topic that is made anew begins at 0 again, and its
   * records would be taken for those of the old one and be refused, or dropped where the value is
   * the same. It would not know a record that was produced twice either.
   */
  keyOf(record: Consumed): string;
  /**
   * What can never take effect: the effect failed for good, or the key belongs to another value. It
   * is handed over on every delivery, and the partition moves on when this resolves.
   */
  onRefused(record: Consumed, why: EffectFailedError): Promise<void>;
};

/** As often as a broker looks for what it may delete (`log.retention.check.interval.ms`). */
const deleteEveryMs = 300_000;

/** Another one is at work on the record's key, outside of a transaction: deliver it again later. */
export class EffectInFlightError extends Error {
  override name = 'EffectInFlightError';
}

/**
 * Wraps a consumer of records so that each takes effect once, whatever is redelivered, replayed
 * from the earliest offset or produced twice. Effect and key commit together, and the offset comes
 * after: a crash between the two redelivers, and the redelivery is a replay.
 *
 * The returned function resolves when the offset may be committed and throws when the record has to
 * be delivered again.
 *
 * @throws RangeError when a key would be forgotten while its record can still be read.
 */
export function idempotentConsumer<Consumed extends ConsumedRecord>(
  options: IdempotentConsumerOptions<Consumed>,
  effect: (tx: Queryable, record: Consumed) => Promise<unknown>,
): (record: Consumed) => Promise<void> {
  const { database, scope, keepMs, retentionMs, segmentMs } = options;
  const readableMs = retentionMs + segmentMs + deleteEveryMs;
  if (keepMs <= readableMs) {
    const why = `records can be read for ${readableMs} ms (retention.ms and segment.ms) and keys would be kept for ${keepMs} ms`;
    throw new RangeError(`${why}: keys have to be kept longer`);
  }
  return async (record) => {
    const step = { scope, key: options.keyOf(record), fingerprint: fingerprintOf(record), keepMs };
    try {
      const { outcome } = await onceInTransaction(database, step, async (tx) => {
        await effect(tx, record);
      });
      if (outcome === 'in-flight') throw new EffectInFlightError(`${step.key} is at work`);
      if (outcome === 'reused') {
        throw new EffectFailedError('key_reused', 'the key belongs to another value');
      }
    } catch (error) {
      if (!(error instanceof EffectFailedError)) throw error;
      await options.onRefused(record, error);
    }
  };
}

function fingerprintOf({ message: { value } }: ConsumedRecord): string {
  return createHash('sha256')
    .update(value ?? '')
    .digest('hex');
}
