import type { Mode } from '@triplock/runtime';
import { explain, openInquiry, readTopicConfig, unknownBecause, type Unknown } from './brokers.ts';
import { deadLetterBatchBytes } from './dead-letters.ts';
import type { BrokerConnection } from './driver.ts';

/** What a record's safety rests on once the brokers have acknowledged it. */
export type TopicReplication = {
  /** Brokers that have a copy of each partition; the fewest where they differ. */
  replicas: number;
  /** How many of them must have a record before it is acknowledged (`min.insync.replicas`). */
  minInSync: number;
  /** Whether one that lacks acknowledged records may lead (`unclean.leader.election.enable`). */
  uncleanElection: boolean;
};

/**
 * The topic that is looked at, and by which mode. When the brokers do not let this user look, or
 * when an acknowledgement of the topic is not worth a promise, production refuses and others warn.
 */
export type TopicCheck = BrokerConnection & { topic: string; mode: Mode };

const otherwise = (mode: Mode) => (mode === 'production' ? 'refuse' : 'warn');

/**
 * A check is made once, when the service starts, and what it could not ask stays unchecked: brokers
 * that have just started or have much to do get more time than a question of a running service has.
 * Brokers that are away refuse the connection, and delay no start.
 */
const answerWithinMs = 10_000;

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
 * Passes with a warning when the brokers do not answer, such as while they cannot be reached.
 *
 * @throws with one sentence that says what to do: the service must not run so.
 */
export async function requireDurable(options: TopicCheck): Promise<void> {
  const { topic, logger, mode } = options;
  const read = await readReplication(options);
  if (read.outcome === 'unknown') return passUnchecked(options, read, 'its replication');
  const weakness = findWeakness(read, options);
  if (weakness === undefined) return;
  if (otherwise(mode) === 'refuse') throw new Error(`topic ${topic} ${weakness}`);
  logger.warn({ topic, weakness }, 'an acknowledged record may be lost if one broker is lost');
}

/**
 * Why an acknowledgement is worth too little, and what to do; `undefined` when it is not.
 *
 * What to do is set on the topic. A broker's own `server.properties` does not decide it: once a
 * cluster was formatted it has a default of its own for `min.insync.replicas` (KIP-966), and what
 * the file says is ignored.
 */
export function findWeakness(
  { replicas, minInSync, uncleanElection }: TopicReplication,
  where: TopicOnBrokers,
): string | undefined {
  if (replicas < 2) {
    const { brokers, topic } = where;
    return (
      'has one replica, so a broker that is lost takes acknowledged records with it: give it three replicas with ' +
      `kafka-reassign-partitions.sh --bootstrap-server ${brokers[0]} --execute --reassignment-json-file FILE, ` +
      `where FILE is {"version":1,"partitions":[{"topic":"${topic}","partition":0,"replicas":[1,2,3]}, …]}, ` +
      `and set min.insync.replicas with ${commandToSet(where, 'min.insync.replicas=2')}`
    );
  }
  if (minInSync < 2) {
    return `has min.insync.replicas ${minInSync}, so one broker alone may acknowledge a record and be lost: set it with ${commandToSet(where, 'min.insync.replicas=2')}. What a broker's server.properties says of it is ignored`;
  }
  if (uncleanElection) {
    return `has unclean.leader.election.enable true, so a replica that lacks acknowledged records may replace one that has them: set it with ${commandToSet(where, 'unclean.leader.election.enable=false')}`;
  }
  return undefined;
}

type TopicOnBrokers = Pick<TopicCheck, 'brokers' | 'topic'>;

/** The command that sets something on a topic; who has to log in adds `--command-config`. */
export function commandToSet({ brokers, topic }: TopicOnBrokers, what: string): string {
  return `kafka-configs.sh --bootstrap-server ${brokers[0]} --alter --entity-type topics --entity-name ${topic} --add-config ${what}`;
}

/**
 * An outage passes, and with it the reason not to look. A refusal lasts: the service would run on a
 * topic that nobody has looked at.
 *
 * @throws in production, with the right to give or the settings to look at.
 */
function passUnchecked(
  { topic, login, logger, mode }: TopicCheck,
  { why, refused }: Unknown,
  what: string,
): void {
  if (refused === undefined || otherwise(mode) === 'warn') {
    return logger.warn({ topic, why }, `Kafka did not report ${what}: not checked`);
  }
  const user = login === undefined ? 'whoever does not log in (KAFKA_USERNAME)' : login.username;
  const next =
    refused === 'login'
      ? `it does not know ${user} with this password: see KAFKA_USERNAME, KAFKA_PASSWORD and KAFKA_SASL`
      : `give ${user} DescribeConfigs on the topic, beside Read or Write`;
  throw new Error(
    `topic ${topic}: Kafka refused to report ${what} (${why}): ${next} (docs/operating.md, "Rights in the parts")`,
  );
}

type Read = ({ outcome: 'known' } & TopicReplication) | Unknown;

async function readReplication(options: BrokerConnection & { topic: string }): Promise<Read> {
  const config = await readTopicConfig({ answerWithinMs, ...options });
  if (config.outcome === 'unknown') return config;
  const inquiry = openInquiry({ answerWithinMs, ...options });
  try {
    const replicas = await inquiry.ask((admin) => admin.replicas(options.topic));
    return {
      outcome: 'known',
      replicas: Math.min(...replicas),
      minInSync: Number(config.valueOf('min.insync.replicas')),
      uncleanElection: config.valueOf('unclean.leader.election.enable') === 'true',
    };
  } catch (error) {
    return await unknownBecause(options, error);
  } finally {
    await inquiry.close();
  }
}

/**
 * Refuses a topic for dead letters that takes smaller batches than they are sent in. The brokers
 * would refuse such a batch however often it is sent again: a burst of poison, or one large record,
 * would hold up its partition and every payment behind it. Kafka's own default of 1 MiB is too
 * little, because a dead letter is its record and more.
 *
 * Passes with a warning when the brokers do not answer, such as while they cannot be reached.
 *
 * @throws with one sentence that says what to do: the service must not run so.
 */
export async function requireDeadLetterCapacity(options: TopicCheck): Promise<void> {
  const { topic } = options;
  const config = await readTopicConfig({ answerWithinMs, ...options });
  if (config.outcome === 'unknown') return passUnchecked(options, config, 'its largest batch');
  const bytesMax = Number(config.valueOf('max.message.bytes'));
  if (bytesMax >= deadLetterBatchBytes) return;
  throw new Error(
    `topic ${topic} has max.message.bytes ${bytesMax}, and dead letters come in batches of up to ${deadLetterBatchBytes} bytes: ` +
      `set it with ${commandToSet(options, `max.message.bytes=${deadLetterBatchBytes}`)}`,
  );
}

/** What kafkajs reads by itself (kafka.js.org/docs/producing#compression). */
const readable = ['uncompressed', 'gzip'];

/**
 * Refuses a topic that lets in batches which this consumer cannot read. With any other
 * `compression.type`, Kafka's default `producer` included, one batch compressed with
 * snappy, lz4 or zstd would hold up its partition for ever, and every payment behind it.
 *
 * Passes with a warning when the brokers do not answer, such as in an outage: the consumer then
 * stops at such a batch and logs it again and again, and nothing behind it is lost.
 *
 * What a topic let in before is not looked at: a batch that is there stays as it is.
 *
 * @throws with one sentence that says what to do: the service must not run so.
 */
export async function requireReadable(options: TopicCheck): Promise<void> {
  const { topic } = options;
  const config = await readTopicConfig({ answerWithinMs, ...options });
  if (config.outcome === 'unknown') return passUnchecked(options, config, 'its compression');
  const compression = config.valueOf('compression.type');
  if (readable.includes(compression)) return;
  throw new Error(
    `topic ${topic} has compression.type ${compression}, which lets in batches that cannot be read here (snappy, lz4, zstd): ` +
      `set it with ${commandToSet(options, 'compression.type=uncompressed')}`,
  );
}

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
      /** Whose clock a record's age, and with it the retention, goes by. */
      stampedBy: 'broker' | 'producer';
    }
  | Unknown;

/**
 * Reads how a topic is kept from the brokers (Kafka's topic configs `retention.ms`, `segment.ms`,
 * `retention.bytes`, `cleanup.policy` and `message.timestamp.type`), within some 2 s. It never
 * rejects.
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
      stampedBy:
        config.valueOf('message.timestamp.type') === 'LogAppendTime' ? 'broker' : 'producer',
    };
  } catch (error) {
    return { outcome: 'unknown', why: explain(error) };
  }
}

/** Kafka writes -1 for "no limit". */
function limit(value: string): number {
  return Number(value) < 0 ? Infinity : Number(value);
}
