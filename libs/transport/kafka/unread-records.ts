import { openInquiry, type Inquiry } from './ask-brokers.ts';
import type { BrokerConnection } from './kafka-client.ts';
import type { Offsets } from './log.ts';

/** What a group has not finished of a topic. */
export type UnreadRecords = {
  /** How many. */
  records: bigint;
  /** Age of the oldest unread record, at most 5 % too low; 0 when everything was read. */
  oldestMs: number;
  /** Records that the topic dropped before the group had read them: gone for good. */
  dropped: bigint;
};

/** Looks at what a group has not read. Each answer within some seconds, or an error. */
export type UnreadReader = { look(): Promise<UnreadRecords>; close(): Promise<void> };

/** Older than anything a topic is kept for, and where the search ends. */
const oldestMaxMs = 10 * 365 * 86_400_000;
/** Halvings of the last doubling, for an answer within 5 %. */
const refinements = 4;

/** Opens a reader; it connects when first asked. */
export function openUnreadRecords(
  options: BrokerConnection & { topic: string; groupId: string },
): UnreadReader {
  const inquiry = openInquiry(options);
  return {
    look: async () => {
      const position = await readPosition(inquiry, options);
      const existsOlderThan = async (ageMs: number) => {
        const { topic } = options;
        const found = await inquiry.ask((admin) =>
          admin.fetchTopicOffsetsByTimestamp(topic, Date.now() - ageMs),
        );
        // The offset of the first record that is younger; whatever is unread before it is older.
        return found.some(({ partition, offset }) => {
          const next = position.unread.get(partition);
          return next !== undefined && next < BigInt(offset);
        });
      };
      const oldestMs = position.unread.size === 0 ? 0 : await greatestAge(existsOlderThan);
      return { records: position.records, oldestMs, dropped: position.dropped };
    },
    close: () => inquiry.close(),
  };
}

/** Where the group stands: its next offset in each partition with something unread. */
async function readPosition(
  inquiry: Inquiry,
  { topic, groupId }: { topic: string; groupId: string },
): Promise<{ unread: Offsets; records: bigint; dropped: bigint }> {
  const [ends, answers] = await Promise.all([
    inquiry.ask((admin) => admin.fetchTopicOffsets(topic)),
    inquiry.ask((admin) => admin.fetchOffsets({ groupId, topics: [topic] })),
  ]);
  const committed = new Map(
    answers.flatMap(({ partitions }) =>
      partitions.map(({ partition, offset }) => [partition, BigInt(offset)]),
    ),
  );
  const unread = new Map<number, bigint>();
  let [records, dropped] = [0n, 0n];
  for (const { partition, low, high } of ends) {
    const [first, end] = [BigInt(low), BigInt(high)];
    const done = committed.get(partition) ?? -1n; // -1: the group never committed anything there.
    if (done >= 0n && done < first) dropped += first - done;
    const next = done > first ? done : first;
    if (next >= end) continue;
    unread.set(partition, next);
    records += end - next;
  }
  return { unread, records, dropped };
}

/** Doubles an age until nothing is older, then halves the last step. */
async function greatestAge(existsOlderThan: (ageMs: number) => Promise<boolean>): Promise<number> {
  let [older, notOlder] = [0, 1_000];
  while (notOlder < oldestMaxMs && (await existsOlderThan(notOlder))) {
    [older, notOlder] = [notOlder, notOlder * 2];
  }
  for (let n = 0; n < refinements; n += 1) {
    const middle = (older + notOlder) / 2;
    if (await existsOlderThan(middle)) older = middle;
    else notOlder = middle;
  }
  return older;
}
