import { askPubSub, pubsubName } from '@triplock/launcher';
import { CommandError } from '@triplock/command';
import type { Admin, Kafka } from 'kafkajs';
import type { System } from './system.ts';

/** How far the ledger workers are in one partition, or in all of them together. */
export type Offsets = ReadonlyMap<number, bigint>;

/** What of a system its brokers are asked with. */
type Brokers = Pick<System, 'kafka' | 'names'>;

/** Offsets that the workers' group has committed; 0 where it never did. */
export function committedOffsets({ kafka, names }: Brokers): Promise<Offsets> {
  return withAdmin(kafka, async (admin) => {
    const { acceptedTopic } = names;
    const groupId = names.groups['ledger-worker'];
    const [answer] = await admin.fetchOffsets({ groupId, topics: [acceptedTopic] });
    return toOffsets(answer?.partitions ?? []);
  });
}

/** The offset after the last record of each partition. */
export function endOffsets({ kafka, names }: Brokers): Promise<Offsets> {
  return withAdmin(kafka, async (admin) =>
    toOffsets(await admin.fetchTopicOffsets(names.acceptedTopic)),
  );
}

/**
 * Sends the whole group back to the first record that Kafka still has. Resolves to `false` while
 * the group has members: Kafka then refuses it.
 */
export function rewindToEarliest({ kafka, names }: System): Promise<boolean> {
  return withAdmin(kafka, async (admin) => {
    const { acceptedTopic: topic } = names;
    const groupId = names.groups['ledger-worker'];
    const { groups } = await admin.describeGroups([groupId]);
    if (groups[0]!.members.length > 0) return false;
    const earliest = (await admin.fetchTopicOffsets(topic)).map(({ partition, low }) => {
      return { partition, offset: low };
    });
    await admin.setOffsets({ groupId, topic, partitions: earliest });
    return true;
  });
}

/** Has Kafka drop all that these partitions hold now, as retention, or a lost disk, does. */
export function dropRecords(
  { kafka, names }: System,
  partitions: ReadonlySet<number>,
): Promise<void> {
  const { acceptedTopic: topic } = names;
  return withAdmin(kafka, async (admin) => {
    // kafkajs deletes nothing of a topic that it has not met.
    const ends = await admin.fetchTopicOffsets(topic);
    const doomed = ends.filter(({ partition }) => partitions.has(partition));
    await admin.deleteTopicRecords({ topic, partitions: doomed });
  });
}

/** Records of all partitions up to the offsets. */
export function total(offsets: Offsets): bigint {
  return [...offsets.values()].reduce((sum, offset) => sum + offset, 0n);
}

/** Whether the first are at least as far as the second in every partition. */
export function havePassed(offsets: Offsets, mark: Offsets): boolean {
  return [...mark].every(([partition, offset]) => (offsets.get(partition) ?? 0n) >= offset);
}

async function withAdmin<Result>(
  kafka: Kafka,
  work: (admin: Admin) => Promise<Result>,
): Promise<Result> {
  const admin = kafka.admin();
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.disconnect();
  }
}

function toOffsets(partitions: readonly { partition: number; offset: string }[]): Offsets {
  return new Map(
    // kafkajs says -1 where nothing was committed.
    partitions.map(({ partition, offset }) => [
      partition,
      BigInt(offset) < 0n ? 0n : BigInt(offset),
    ]),
  );
}

/**
 * A message to publish by hand. Without an ordering key it comes in any order.
 */
export type Message = { data: string; attributes: Record<string, string>; orderingKey?: string };

/** Publishes one message to the topic of events; resolves once the broker has it. */
export function publish(system: System, message: Message): Promise<void> {
  const { data, attributes, orderingKey } = message;
  const messages = [{ data: Buffer.from(data).toString('base64'), attributes, orderingKey }];
  return ask(system, {
    method: 'POST',
    name: `topics/${system.names.eventsTopic}:publish`,
    body: { messages },
  });
}

/** A snapshot, by name, of what a subscription has not acknowledged. */
export type SnapshotOf = { subscription: string; snapshot: string };

/**
 * Keeps what a subscription has not acknowledged yet, and all that is published from now on, to be
 * sought back to. It must be dropped.
 */
export function takeSnapshot(
  system: System,
  { subscription, snapshot }: SnapshotOf,
): Promise<void> {
  const body = { subscription: pubsubName(`subscriptions/${subscription}`) };
  return ask(system, { method: 'PUT', name: `snapshots/${snapshot}`, body });
}

/** Has everything that the snapshot kept delivered again. */
export function seekBack(system: System, { subscription, snapshot }: SnapshotOf): Promise<void> {
  const body = { snapshot: pubsubName(`snapshots/${snapshot}`) };
  return ask(system, { method: 'POST', name: `subscriptions/${subscription}:seek`, body });
}

/** Deletes a snapshot. */
export function dropSnapshot(system: System, snapshot: string): Promise<void> {
  return ask(system, { method: 'DELETE', name: `snapshots/${snapshot}` });
}

async function ask({ endpoints }: System, request: Parameters<typeof askPubSub>[1]): Promise<void> {
  const { ok, status, text } = await askPubSub(endpoints.pubsub, request);
  if (!ok) throw new CommandError(`pubsub: ${request.method} ${request.name}: ${status} ${text}`);
}
