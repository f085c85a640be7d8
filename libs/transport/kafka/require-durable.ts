import { openInquiry } from './ask-brokers.ts';
import type { BrokerConnection } from './kafka-client.ts';
import { explain, readTopicConfig } from './topic-config.ts';

/** What a record's safety rests on once the brokers have acknowledged it. */
export type TopicReplication = {
  /** Brokers that have a copy of each partition; the fewest where they differ. */
  replicas: number;
  /** How many of them must have a record before it is acknowledged (`min.insync.replicas`). */
  minInSync: number;
  /** Whether one that lacks acknowledged records may lead (`unclean.leader.election.enable`). */
  uncleanElection: boolean;
};

/** The topic, and what is done when an acknowledgement of it is not worth a promise. */
export type DurableOptions = BrokerConnection & { topic: string; otherwise: 'refuse' | 'warn' };

/**
 * Refuses a topic whose acknowledged records one lost broker may take away, or warns of it. The
 * producer waits for all in-sync replicas, which is worth no more than how many those must be: with
 * Kafka's default `min.insync.replicas` of 1 the leader acknowledges alone while its followers are
 * away.
 *
 * One replica is refused too. A broker acknowledges before its disk has the record, because Kafka
 * relies on the copies and not on the disk (kafka.apache.org/documentation, `flush.messages`): a
 * machine that crashes is enough.
 *
 * Passes with a warning when the brokers do not tell, such as while they are away.
 *
 * @throws with one sentence that says what to do: the service must not run so.
 */
export async function requireDurable(options: DurableOptions): Promise<void> {
  const { topic, logger, otherwise } = options;
  const read = await readReplication(options);
  if (read.outcome === 'unknown') {
    logger.warn({ topic, why: read.why }, 'Kafka did not report its replication: not checked');
    return;
  }
  const weakness = findWeakness(read);
  if (weakness === undefined) return;
  if (otherwise === 'refuse') throw new Error(`topic ${topic} ${weakness}`);
  logger.warn({ topic, weakness }, 'an acknowledged record may be lost if one broker is lost');
}

/** Why an acknowledgement is worth too little, and what to do; `undefined` when it is not. */
export function findWeakness(topic: TopicReplication): string | undefined {
  const { replicas, minInSync, uncleanElection } = topic;
  if (replicas < 2) {
    return 'has one replica, so a broker that is lost takes accepted payments with it: give it three replicas, and min.insync.replicas of 2';
  }
  if (minInSync < 2) {
    return `has min.insync.replicas ${minInSync}, so one broker alone may acknowledge a payment and be lost: set it to 2`;
  }
  if (uncleanElection) {
    return 'has unclean.leader.election.enable true, so a replica that lacks accepted payments may replace one that has them: set it to false';
  }
  return undefined;
}

type Read = ({ outcome: 'known' } & TopicReplication) | { outcome: 'unknown'; why: string };

async function readReplication(options: BrokerConnection & { topic: string }): Promise<Read> {
  const config = await readTopicConfig(options);
  if (config.outcome === 'unknown') return config;
  const inquiry = openInquiry(options);
  try {
    const { topics } = await inquiry.ask((admin) =>
      admin.fetchTopicMetadata({ topics: [options.topic] }),
    );
    const partitions = topics.flatMap((each) => each.partitions);
    return {
      outcome: 'known',
      replicas: Math.min(...partitions.map(({ replicas }) => replicas.length)),
      minInSync: Number(config.valueOf('min.insync.replicas')),
      uncleanElection: config.valueOf('unclean.leader.election.enable') === 'true',
    };
  } catch (error) {
    return { outcome: 'unknown', why: explain(error) };
  } finally {
    await inquiry.close();
  }
}
