import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { commitTestOffset, testEndpoints, testNamespace } from '@triplock/testing';
import { Redis } from 'ioredis';
import { type Names, namesIn, usualNames } from '../names.ts';
import { askPubSub } from '../parts/pubsub.ts';
import { provisionDatabase, withDatabase } from './database.ts';
import { dropNames } from './drop-names.ts';
import { createKafkaTopics, createSubscriptions, withKafkaAdmin } from './topics.ts';

/** Everything that a system of these names leaves in the parts; dropped after the test. */
async function fill(t: TestContext, names: Names): Promise<void> {
  const parts = await testEndpoints();
  t.after(() => dropNames(parts, names));
  await Promise.all([
    provisionDatabase({ url: parts.postgres, origin: 'native', name: names.database }, () => {}),
    createKafkaTopics(parts.kafka, names),
    createSubscriptions(parts.pubsub, names),
  ]);
  const topic = { brokers: [parts.kafka], topic: names.acceptedTopic };
  const groups = [names.groups['ledger-worker'], `${names.groups.auditor}-dead-letters`];
  await Promise.all(groups.map((groupId) => commitTestOffset(topic, { groupId, offset: 0 })));
  const redis = new Redis(parts.redis);
  await redis.set(`{${names.claims}:7}:marker`, 'warm');
  redis.disconnect();
}

/** What the parts have of these names. */
async function found(names: Names): Promise<string[]> {
  const parts = await testEndpoints();
  const redis = new Redis(parts.redis);
  const keys = await redis.keys(`{${names.claims}:*`);
  redis.disconnect();
  const databases = await withDatabase(parts.postgres, (server) =>
    server.query<{ datname: string }>('SELECT datname FROM pg_database WHERE datname = $1', [
      names.database,
    ]),
  );
  const kafka = await withKafkaAdmin(parts.kafka, async (admin) => {
    const { groups } = await admin.listGroups();
    return [...(await admin.listTopics()), ...groups.map(({ groupId }) => groupId)];
  });
  const resources = [
    `topics/${names.eventsTopic}`,
    `subscriptions/${names.subscriptions['partner-notifier']}`,
    `subscriptions/${names.subscriptions['settlement-feed']}`,
    `subscriptions/${names.subscriptions.auditor}`,
  ];
  const pubsub: string[] = [];
  for (const name of resources) {
    if ((await askPubSub(parts.pubsub, { method: 'GET', name })).ok) pubsub.push(name);
  }
  const ours = kafka.filter((name) =>
    name.startsWith(names.groups['ledger-worker'].split('.')[0]! + '.'),
  );
  return [...keys, ...databases.map(({ datname }) => datname), ...ours, ...pubsub];
}

test('all that a namespace left in the parts is dropped, and nothing of its neighbour', async (t) => {
  const names = namesIn(testNamespace('one'));
  const neighbour = namesIn(testNamespace('other'));
  await fill(t, names);
  await fill(t, neighbour);
  assert.equal((await found(names)).length, 10);
  const parts = await testEndpoints();
  await dropNames(parts, names);
  assert.deepEqual(await found(names), []);
  assert.equal((await found(neighbour)).length, 10);
  await dropNames(parts, names);
});

test('what a system of its own stands on is never dropped', async () => {
  const parts = await testEndpoints();
  const mixed = { ...namesIn('some'), acceptedTopic: usualNames.acceptedTopic };
  for (const names of [usualNames, mixed]) {
    await assert.rejects(dropNames(parts, names), /payments.accepted.v1.* must not be dropped/);
  }
});
