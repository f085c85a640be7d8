import { setTimeout as delay } from 'node:timers/promises';
import type { Admin } from 'kafkajs';
import { CommandError } from '@triplock/command';
import { allNamesOf, type Names, usualNames } from '../names.ts';
import type { Addresses } from '../parts/part.ts';
import { askPubSub } from '../parts/pubsub.ts';
import { withDatabase } from './database.ts';
import { withKafkaAdmin } from './topics.ts';

type Shared = Pick<Addresses, 'redis' | 'kafka' | 'postgres' | 'pubsub'>;

/**
 * Takes everything out of the parts that has one of the names: database, topics, groups,
 * subscriptions, claims. What is not there is as good as dropped. No service may be at work on it.
 *
 * @throws when one of the names is a usual one, before anything is dropped.
 */
export async function dropNames(parts: Shared, names: Names): Promise<void> {
  const usual = new Set(allNamesOf(usualNames));
  const precious = allNamesOf(names).filter((name) => usual.has(name));
  if (precious.length > 0) throw new Error(`${precious.join(', ')} must not be dropped`);
  await Promise.all([
    withDatabase(parts.postgres, (server) =>
      server.query(`DROP DATABASE IF EXISTS ${names.database} WITH (FORCE)`),
    ),
    withKafkaAdmin(parts.kafka, (admin) => dropFromKafka(admin, names)),
    dropFromPubSub(parts.pubsub, names),
    dropClaims(parts.redis, names),
  ]);
}

async function dropFromKafka(admin: Admin, names: Names): Promise<void> {
  const wanted = [names.acceptedTopic, names.deadLetterTopic, names.toldTopic];
  const existing = await admin.listTopics();
  const topics = wanted.filter((topic) => existing.includes(topic));
  if (topics.length > 0) await admin.deleteTopics({ topics });
  const { groups } = await admin.listGroups();
  const ours = groups
    .map(({ groupId }) => groupId)
    .filter((id) => Object.values(names.groups).some((group) => id.startsWith(group)));
  if (ours.length > 0) await deleteGroups(admin, ours);
}

/** A member that was killed is one until its session is over. */
const sessionsOverMs = 60_000;
const askAgainMs = 500;

async function deleteGroups(admin: Admin, groups: string[]): Promise<void> {
  const deadline = performance.now() + sessionsOverMs;
  for (;;) {
    const described = (await admin.describeGroups(groups)).groups;
    const joined = described.filter(({ members }) => members.length > 0);
    if (joined.length === 0) break;
    if (performance.now() > deadline) {
      const names = joined.map(({ groupId }) => groupId).join(', ');
      throw new CommandError(`kafka: somebody is still at work in ${names}: stop it first`);
    }
    await delay(askAgainMs);
  }
  await admin.deleteGroups(groups);
}

/** Subscriptions first: the emulator keeps those of a deleted topic. */
async function dropFromPubSub(emulator: string, names: Names): Promise<void> {
  const resources = [
    ...Object.values(names.subscriptions).map((name) => `subscriptions/${name}`),
    `topics/${names.eventsTopic}`,
  ];
  for (const name of resources) {
    const { ok, status, text } = await askPubSub(emulator, { method: 'DELETE', name });
    if (!ok && status !== 404) throw new CommandError(`pubsub: deleting ${name}: ${text}`);
  }
}

async function dropClaims(url: string, { claims }: Names): Promise<void> {
  const { Redis } = await import('ioredis');
  const redis = new Redis(url, { maxRetriesPerRequest: 3 });
  try {
    const match = `{${claims}:*`;
    for await (const keys of redis.scanStream({ match, count: 1_000 })) {
      if ((keys as string[]).length > 0) await redis.unlink(...(keys as string[]));
    }
  } finally {
    redis.disconnect();
  }
}
