import type { BrokerConnection } from './kafka-client.ts';
import { explain, readTopicConfig } from './topic-config.ts';

/**
 * For how long, and up to what size, a topic keeps records, with `Infinity` where nothing limits
 * it; or why that is unknown.
 */
export type TopicRetention =
  | {
      outcome: 'known';
      retentionMs: number;
      /**
       * Records leave by whole segments, once the newest of one is old enough, and a segment takes
       * records for this long: its first one can be read for up to this long past `retentionMs`.
       */
      segmentMs: number;
      /** Bytes of one partition. */
      retentionBytes: number;
      /** Old records leave by age and size only, and not because a newer one has the same key. */
      keepsEveryRecord: boolean;
    }
  | { outcome: 'unknown'; why: string };

/**
 * Reads how a topic is kept from the brokers (Kafka's topic configs `retention.ms`,
 * `segment.ms`, `retention.bytes` and `cleanup.policy`), within some 2 s. It never rejects.
 */
export async function readTopicRetention(
  options: BrokerConnection & { topic: string },
): Promise<TopicRetention> {
  const config = await readTopicConfig(options);
  if (config.outcome === 'unknown') return config;
  try {
    return {
      outcome: 'known',
      retentionMs: limit(config.valueOf('retention.ms')),
      segmentMs: Number(config.valueOf('segment.ms')),
      retentionBytes: limit(config.valueOf('retention.bytes')),
      keepsEveryRecord: config.valueOf('cleanup.policy') === 'delete',
    };
  } catch (error) {
    return { outcome: 'unknown', why: explain(error) };
  }
}

/** Kafka writes -1 for "no limit". */
function limit(value: string): number {
  return Number(value) < 0 ? Infinity : Number(value);
}
