import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestTopic, ofDeadLetters, type TopicShape } from '@triplock/testing';
import kafkajs from 'kafkajs';
import { testEveryDriver, type DriverTest } from '../test/topic.ts';
import { readTopicConfig } from './brokers.ts';
import { openDeadLetters } from './dead-letters.ts';
import {
  findWeakness,
  requireDurable,
  requireDeadLetterCapacity,
  requireReadable,
  readTopicRetention,
  type TopicReplication,
} from './topics.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

test('a record counts as kept when two brokers must have it before it is acknowledged', () => {
  const find = (weak: Partial<TopicReplication>) => {
    const where = { brokers: ['kafka:9092'], topic: 'accepted' };
    const strong = { replicas: 3, minInSync: 2, uncleanElection: false };
    return findWeakness({ ...strong, ...weak }, where);
  };
  assert.equal(find({}), undefined);
  assert.equal(find({ replicas: 2 }), undefined);
  assert.match(find({ minInSync: 1 })!, /^has min\.insync\.replicas 1,/);
  assert.match(find({ uncleanElection: true })!, /^has unclean\.leader/);
  assert.match(find({ replicas: 1 })!, /^has one replica,.*"topic":"accepted"/);
});

test('what a weak topic is to be set to is set by the command that is told', async (t) => {
  const place = await createTestTopic(t);
  const connection = { ...place, clientId: 'test', logger };
  const weaknesses = [
    ['min.insync.replicas', { replicas: 3, minInSync: 1, uncleanElection: true }, '2'],
    [
      'unclean.leader.election.enable',
      { replicas: 3, minInSync: 2, uncleanElection: true },
      'false',
    ],
    ['min.insync.replicas', { replicas: 1, minInSync: 1, uncleanElection: false }, '2'],
  ] as const;
  const admin = new kafkajs.Kafka({ brokers: place.brokers, logLevel: 0 }).admin();
  await admin.connect();
  t.after(() => admin.disconnect());
  for (const [name, replication, wanted] of weaknesses) {
    // The other way round first, so that it is this that sets it.
    const opposite = name === 'min.insync.replicas' ? '1' : 'true';
    await setAsTold({ name, value: opposite, topic: place.topic });
    const told = findWeakness(replication, connection)!;
    const [, brokers, topic, setting, value] =
      /kafka-configs\.sh --bootstrap-server (\S+) --alter --entity-type topics --entity-name (\S+) --add-config ([\w.]+)=(\w+)/.exec(
        told,
      )!;
    assert.deepEqual([brokers, topic, setting], [place.brokers[0], place.topic, name]);
    await setAsTold({ name: setting!, value: value!, topic: topic! });
    const config = await readTopicConfig(connection);
    assert.equal(config.outcome === 'known' && config.valueOf(name), wanted);
  }

  async function setAsTold({ name, value, topic }: Record<'name' | 'value' | 'topic', string>) {
    const { TOPIC: type } = kafkajs.ConfigResourceTypes;
    const resources = [{ type, name: topic, configEntries: [{ name, value }] }];
    await admin.alterConfigs({ validateOnly: false, resources });
  }
});

testEveryDriver('what a broker reports of a topic is what is checked', async (t) => {
  const warnings: string[] = [];
  const noting = Object.assign(Object.create(logger) as typeof logger, {
    warn: (_: object, message: string) => void warnings.push(message),
  });
  const connection = {
    ...(await createTestTopic(t)),
    clientId: 'test',
    driver: t.driver,
    logger: noting,
  };
  const refused = requireDurable({ ...connection, mode: 'production' });
  await assert.rejects(
    refused,
    /^Error: topic test\.\w+ has one replica,.* give it three replicas/,
  );
  assert.deepEqual(warnings, []);
  await requireDurable({ ...connection, mode: 'test' });
  assert.deepEqual(warnings, ['an acknowledged record may be lost if one broker is lost']);
});

testEveryDriver(
  'a topic is refused or takes a burst of dead letters in the batches that they come in',
  async (t) => {
    const open = async (shape: TopicShape) => {
      const connection = {
        ...(await createTestTopic(t, shape)),
        clientId: 'test',
        driver: t.driver,
        logger,
      };
      const deadLetters = openDeadLetters(connection);
      t.after(() => deadLetters.close());
      const value = Buffer.alloc(300_000);
      const record = { key: null, value, headers: {}, topic: 'accepted', timestamp: '0' };
      const setAside = (offset: number) =>
        deadLetters.append(
          { ...record, partition: 0, offset: BigInt(offset) },
          { reason: 'not_json', detail: 'zeros' },
        );
      return { connection, burst: Promise.all([0, 1, 2, 3, 4, 5].map(setAside)) };
    };
    const small = await open({});
    await assert.rejects(small.burst);
    await assert.rejects(
      requireDeadLetterCapacity({ ...small.connection, mode: 'test' }),
      (error: Error) => {
        assert.match(error.message, /^topic test\.\w+ has max\.message\.bytes 1048588,/);
        assert.match(error.message, /--add-config max\.message\.bytes=2097152$/);
        return true;
      },
    );
    const large = await open(ofDeadLetters);
    await requireDeadLetterCapacity({ ...large.connection, mode: 'test' });
    await large.burst;
  },
);

async function check(t: DriverTest, compression: string): Promise<void> {
  const connection = await createTestTopic(t, { compression });
  await requireReadable({
    ...connection,
    clientId: 'test',
    driver: t.driver,
    logger,
    mode: 'test',
  });
}

testEveryDriver('a topic whose batches can always be read is accepted', async (t) => {
  await check(t, 'uncompressed');
  await check(t, 'gzip');
});

testEveryDriver(
  'a topic that lets in what cannot be read is refused, with what to do',
  async (t) => {
    for (const compression of ['producer', 'snappy', 'lz4', 'zstd']) {
      await assert.rejects(check(t, compression), (error: Error) => {
        assert.match(
          error.message,
          new RegExp(`^topic test\\.\\w+ has compression.type ${compression},`),
        );
        assert.match(error.message, /--add-config compression\.type=uncompressed$/);
        return true;
      });
    }
  },
);

testEveryDriver('brokers that cannot be reached refuse nothing', async (t) => {
  const nowhere = {
    brokers: ['127.0.0.1:1'],
    topic: 'any',
    clientId: 'test',
    driver: t.driver,
    logger,
  };
  const unreachable = { ...nowhere, mode: 'production' } as const;
  await requireDurable(unreachable);
  await requireDeadLetterCapacity(unreachable);
  await requireReadable(unreachable);
});

testEveryDriver(
  'for how long a topic keeps records is known, and of a missing one why it is not',
  async (context) => {
    const { brokers, topic } = await createTestTopic(context);
    const read = (name: string) =>
      readTopicRetention({
        brokers,
        topic: name,
        clientId: 'test',
        driver: context.driver,
        logger,
      });
    assert.deepEqual(await read(topic), {
      outcome: 'known',
      retentionMs: 7 * 24 * 3_600_000,
      segmentMs: 7 * 24 * 3_600_000,
      retentionBytes: Infinity,
      keepsEveryRecord: true,
      stampedBy: 'broker',
    });
    assert.equal((await read(`${topic}.missing`)).outcome, 'unknown');
  },
);
