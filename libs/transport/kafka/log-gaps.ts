import { setTimeout as delay } from 'node:timers/promises';
import { openInquiry, type Inquiry } from './admin.ts';
import type { BrokerConnection } from './client.ts';

/** What one partition holds: from its first record up to, and without, its end. */
export type Bounds = { start: bigint; end: bigint };

/** What a topic holds, by partition. Each answer within the connection's limit, or an error. */
export type TopicLog = {
  topic: string;
  bounds(): Promise<ReadonlyMap<number, Bounds>>;
  close(): Promise<void>;
};

/**
 * Offsets from the first up to, and without, the second that a reader expected and that are no
 * longer there. `dropped`: the log begins later, because of retention, a deletion, or a lost disk.
 * `cut-off`: it ends earlier, because a replica that lacked records leads (unclean election), or
 * because the topic was made anew.
 */
export type LogGap = { partition: number; from: bigint; to: bigint; why: 'dropped' | 'cut-off' };

/**
 * After an election a new leader may for a moment not know yet how far its partition goes: an end
 * that went back is believed when it is still so after this time.
 */
export const electionMs = 5_000;

/** Opens a reader of what a topic holds; it connects when first asked. */
export function openLogBounds(options: BrokerConnection & { topic: string }): TopicLog {
  const inquiry = openInquiry(options);
  const { topic } = options;
  return {
    topic,
    bounds: () => readBounds(inquiry, topic),
    close: () => inquiry.close(),
  };
}

/**
 * What is missing before the offset that a reader expects next; `undefined` while the log holds it,
 * or will hold it next. What is in the log and no record, such as a control record, is not missing.
 */
export function gapBefore(
  { partition, next }: { partition: number; next: bigint },
  { start, end }: Bounds,
): LogGap | undefined {
  if (next < start) return { partition, from: next, to: start, why: 'dropped' };
  if (next > end) return { partition, from: end, to: next, why: 'cut-off' };
  return undefined;
}

/**
 * What the log lost of what a group had yet to read. To be asked before the group is joined: a
 * member that finds its offset gone goes on from the log's start, and commits that.
 *
 * A partition that the group never committed is expected from 0, if it committed any other: it is
 * no new group. One whose offset kafkajs has reset (-2) was found before.
 */
export async function findGroupGaps(
  options: BrokerConnection & { topic: string; groupId: string },
  confirmMs = electionMs,
): Promise<LogGap[]> {
  const { topic, groupId } = options;
  const inquiry = openInquiry(options);
  try {
    // The offsets first: an end that is older than they would look as if it went back.
    const answers = await inquiry.ask((admin) => admin.fetchOffsets({ groupId, topics: [topic] }));
    const committed = new Map(
      answers.flatMap(({ partitions }) =>
        partitions.map(({ partition, offset }) => [partition, BigInt(offset)]),
      ),
    );
    if ([...committed.values()].every((offset) => offset === -1n)) return [];
    const compare = async () => {
      const bounds = await readBounds(inquiry, topic);
      return [...bounds].flatMap(([partition, there]) => {
        const offset = committed.get(partition) ?? -1n;
        if (offset < -1n) return [];
        return gapBefore({ partition, next: offset < 0n ? 0n : offset }, there) ?? [];
      });
    };
    const gaps = await compare();
    if (gaps.every(({ why }) => why !== 'cut-off')) return gaps;
    await delay(confirmMs);
    return await compare();
  } finally {
    await inquiry.close();
  }
}

/**
 * What the log lost between where a member was to go on and the first offset that it got instead.
 *
 * @throws when Kafka does not say what the log holds; the batch is to come again.
 */
export async function findGapBefore(
  options: BrokerConnection & { topic: string },
  { partition, next, first }: { partition: number; next: bigint; first: bigint },
): Promise<LogGap | undefined> {
  const log = openLogBounds(options);
  try {
    const there = (await log.bounds()).get(partition);
    const gap = there && gapBefore({ partition, next }, there);
    // By now the log may begin even later.
    return gap?.why === 'dropped' && gap.to > first ? { ...gap, to: first } : gap;
  } catch (error) {
    // Not as an error of kafkajs, by which it would join again and forget where it was.
    throw new Error(`Kafka did not say why partition ${partition} goes on at ${first}`, {
      cause: error,
    });
  } finally {
    await log.close();
  }
}

async function readBounds(inquiry: Inquiry, topic: string) {
  const there = await inquiry.ask((admin) => admin.fetchTopicOffsets(topic));
  return new Map(
    there.map(({ partition, low, high }) => [partition, { start: BigInt(low), end: BigInt(high) }]),
  );
}
