import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { openRedisClaims, type Claims } from '@triplock/claims';
import { storeNamed } from '@triplock/claim-stores';
import { openPostgresClaims } from '@triplock/claims-postgres';
import { bucketCount } from '@triplock/contracts';
import { deriveTxnId, type IdempotencyKey, type PartnerId } from '@triplock/payments';
import { createLogger } from '@triplock/runtime';
import {
  createTestDatabase,
  createTestRedis,
  commitTestOffset,
  testEndpoints,
  testNamespace,
} from '@triplock/testing';
import { Redis } from 'ioredis';
import { type ClaimStore, claimStores } from '../choices.ts';
import { createHome } from '../home.ts';
import type { Addresses } from '../parts/part.ts';
import { openSession } from '../session.ts';
import { gatewaysOf, provisionClaims } from './claims.ts';
import { type DatabaseUrls, provisionDatabase, withDatabase } from './database.ts';
import { type Names, namesIn, usualNames } from '../names.ts';
import { askPubSub } from '../parts/pubsub.ts';
import { dropNames } from './drop-names.ts';
import { createKafkaTopics, createSubscriptions, withKafkaAdmin } from './topics.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
const anyId = deriveTxnId('payment', 'acme' as PartnerId, 'any' as IdempotencyKey);

/** A home's session, and both stores as its gateways would open them. */
async function aHomeWithStores(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'triplock-claims-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const [redis, database] = await Promise.all([createTestRedis(t), createTestDatabase(t)]);
  const url = database.url('triplock_claims');
  const reported: string[] = [];
  const { signal } = new AbortController();
  const session = openSession(createHome(folder), {
    report: (line) => reported.push(line),
    signal,
  });
  const addresses = { redis: redis.url } as Addresses;
  const databases = { claims: url } as DatabaseUrls;
  const named = { namespace: 'triplock', logger };
  const stores = {
    redis: await openRedisClaims({ ...named, url: redis.url }),
    postgres: await openPostgresClaims({ ...named, url, applicationName: 'test' }),
  };
  t.after(() => Promise.all([stores.redis.close(), stores.postgres.close()]));
  const keepIn = (store: ClaimStore) =>
    provisionClaims(gatewaysOf(session), { store, addresses, databases });
  return { stores, keepIn, reported, session };
}

/** Makes every bucket remember without a gap, as on an empty system. */
async function warmUp(claims: Claims): Promise<void> {
  for (let bucket = 0; bucket < bucketCount; bucket += 1) {
    const { epoch } = await claims.noteLoss(bucket);
    await claims.setBarrier({ bucket, epoch, barrier: '{}', warm: true });
  }
}

const outcomeOf = async (claims: Claims) => (await claims.read(anyId)).outcome;

test('the first store and one that stays are left as they are', async (t) => {
  const { stores, keepIn, reported } = await aHomeWithStores(t);
  await warmUp(stores.redis);
  await keepIn('redis');
  await keepIn('redis');
  assert.equal(await outcomeOf(stores.redis), 'unknown');
  assert.deepEqual(reported, []);
});

test('a store that others stood in for is cold when it comes back, and one line reports it', async (t) => {
  const { stores, keepIn, reported } = await aHomeWithStores(t);
  await keepIn('redis');
  await warmUp(stores.redis);
  await keepIn('postgres');
  assert.match(
    reported.join('\n'),
    /^claims: kept in postgres from now on and no longer in redis; .*$/,
  );
  assert.equal(await outcomeOf(stores.postgres), 'cold');
  await warmUp(stores.postgres);
  await keepIn('redis');
  assert.equal(reported.length, 2);
  assert.equal(await outcomeOf(stores.redis), 'cold');
});

test('a cache before PostgreSQL comes and goes without a word', async (t) => {
  const { stores, keepIn, reported } = await aHomeWithStores(t);
  await keepIn('postgres');
  await warmUp(stores.postgres);
  const cached = claimStores.filter((name) => storeNamed(name).parts.length > 1);
  for (const store of cached) {
    await keepIn(store);
    await keepIn('postgres');
  }
  assert.equal(await outcomeOf(stores.postgres), 'unknown');
  assert.deepEqual(reported, []);
});

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
    ...Object.values(names.subscriptions).map((name) => `subscriptions/${name}`),
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
  assert.equal((await found(names)).length, 11);
  const parts = await testEndpoints();
  await dropNames(parts, names);
  assert.deepEqual(await found(names), []);
  assert.equal((await found(neighbour)).length, 11);
  await dropNames(parts, names);
});

test('what a system of its own stands on is never dropped', async () => {
  const parts = await testEndpoints();
  const mixed = { ...namesIn('some'), acceptedTopic: usualNames.acceptedTopic };
  for (const names of [usualNames, mixed]) {
    await assert.rejects(dropNames(parts, names), /payments.accepted.v1.* must not be dropped/);
  }
});
