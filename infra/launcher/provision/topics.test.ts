import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testNamespace, testPart } from '@triplock/testing';
import kafkajs from 'kafkajs';
import { namesIn } from '../names.ts';
import { createKafkaTopics, withKafkaAdmin } from './topics.ts';

const { BROKER, TOPIC } = kafkajs.ConfigResourceTypes;

test('a group that is away for as long as records are kept is still known to have been there', async (t) => {
  const brokers = await testPart('kafka');
  const { acceptedTopic, deadLetterTopic } = namesIn(testNamespace('offsets'));
  const topics = [acceptedTopic, deadLetterTopic];
  t.after(() => withKafkaAdmin(brokers, (admin) => admin.deleteTopics({ topics })));
  await createKafkaTopics(brokers, { ...namesIn('any'), acceptedTopic, deadLetterTopic });
  const [broker, ...kept] = await withKafkaAdmin(brokers, async (admin) => {
    const { brokers: all } = await admin.describeCluster();
    const asked = [{ type: BROKER, name: String(all[0]!.nodeId) }].concat(
      topics.map((name) => ({ type: TOPIC, name })),
    );
    const { resources } = await admin.describeConfigs({ resources: asked, includeSynonyms: false });
    return resources.map(({ configEntries }) => {
      return new Map(configEntries.map(({ configName, configValue }) => [configName, configValue]));
    });
  });
  const offsetsMs = Number(broker!.get('offsets.retention.minutes')) * 60_000;
  assert.equal(kept.length, 2);
  for (const each of kept) {
    // A segment is dropped whole, once the newest record in it is old enough.
    const recordsMs = Number(each.get('retention.ms')) + Number(each.get('segment.ms'));
    assert.ok(offsetsMs > 2 * recordsMs, `offsets ${offsetsMs} ms, records ${recordsMs} ms`);
  }
});
