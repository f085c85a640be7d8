import { openInquiry, type Inquiry } from './admin.ts';
import type { BrokerConnection } from './client.ts';

/** Offsets by partition: the next offset after the last record, or after the last committed one. */
export type Offsets = ReadonlyMap<number, bigint>;

/** How far a topic goes, and a group came. Each answer in the connection's limit, or an error. */
export type TopicOffsets = {
  /** The offset after the last record, by partition. */
  end(): Promise<Offsets>;
  /** The offset of the first record of this time or later, by partition; the end without one. */
  since(time: Date): Promise<Offsets>;
  /**
   * The group's next offset, by partition. Where it never committed, or stood still while records
   * aged out, that is the first one there is: nothing before it can be read any more. An offset
   * past the end was committed to a topic of this name that is no more, and counts as never
   * committed.
   */
  committed(): Promise<Offsets>;
  close(): Promise<void>;
};

/** Opens a reader of offsets; it connects when first asked. */
export function openTopicOffsets(
  options: BrokerConnection & { topic: string; groupId: string },
): TopicOffsets {
  const { topic, groupId } = options;
  const inquiry = openInquiry(options);
  return {
    end: () => inquiry.ask(async (admin) => offsetsOf(await admin.fetchTopicOffsets(topic))),
    since: (time) =>
      inquiry.ask(async (admin) =>
        offsetsOf(await admin.fetchTopicOffsetsByTimestamp(topic, time.getTime())),
      ),
    committed: () =>
      inquiry.ask(async (admin) => {
        const [answer] = await admin.fetchOffsets({ groupId, topics: [topic] });
        const next = offsetsOf(answer?.partitions ?? []);
        const there = await admin.fetchTopicOffsets(topic);
        return new Map(
          there.map(({ partition, low, high }) => {
            const [first, end] = [BigInt(low), BigInt(high)];
            const committed = next.get(partition) ?? 0n;
            return [partition, committed > first && committed <= end ? committed : first];
          }),
        );
      }),
    close: () => inquiry.close(),
  };
}

/** A consumer group that is to go on from elsewhere. */
export type GroupMover = {
  /** Who is in the group now, each by the name that it gave itself. */
  members(): Promise<string[]>;
  /**
   * Has the group go on from these offsets, back or forth; those of other partitions stay. Kafka
   * moves the offsets of a group without members only, so none can commit past it meanwhile. It
   * takes some seconds, for which this is a member itself.
   *
   * @throws when the group has members, or Kafka does not answer.
   */
  moveTo(offsets: Offsets): Promise<void>;
  close(): Promise<void>;
};

/** Joining an empty group takes as long as brokers wait for others who join it. */
const moveLimitMs = 60_000;

/** Opens a mover; it connects when first asked. */
export function openGroupMover(
  options: BrokerConnection & { topic: string; groupId: string },
): GroupMover {
  const { topic, groupId } = options;
  const inquiry = openInquiry({ ...options, answerWithinMs: moveLimitMs });
  return {
    members: () =>
      inquiry.ask(async (admin) => {
        const { groups } = await admin.describeGroups([groupId]);
        return groups.flatMap(({ members }) => members.map(({ clientId }) => clientId)).sort();
      }),
    moveTo: async (offsets) => {
      if (offsets.size === 0) return;
      const partitions = [...offsets].map(([partition, offset]) => {
        return { partition, offset: String(offset) };
      });
      await inquiry.ask((admin) => admin.setOffsets({ groupId, topic, partitions }));
    },
    close: () => inquiry.close(),
  };
}

function offsetsOf(partitions: readonly { partition: number; offset: string }[]): Offsets {
  return new Map(
    partitions.map(({ partition, offset }) => {
      const next = BigInt(offset);
      return [partition, next > 0n ? next : 0n]; // -1 says that nothing was committed yet.
    }),
  );
}

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

/** How far the group is: its next offset in each partition with something unread. */
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
