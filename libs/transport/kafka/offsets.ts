import { setTimeout as delay } from 'node:timers/promises';
import { openInquiry, type Inquiry } from './brokers.ts';
import type { Bounds, BrokerConnection, Offsets } from './driver.ts';

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
    end: () =>
      inquiry.ask(async (admin) => {
        const there = await admin.bounds(topic);
        return new Map([...there].map(([partition, { end }]) => [partition, end]));
      }),
    since: (time) => inquiry.ask((admin) => admin.since(topic, time)),
    committed: () =>
      inquiry.ask(async (admin) => {
        const next = await admin.committed({ groupId, topic });
        const there = await admin.bounds(topic);
        return new Map(
          [...there].map(([partition, { start, end }]) => {
            const committed = next.get(partition) ?? 0n;
            return [partition, committed > start && committed <= end ? committed : start];
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
    members: () => inquiry.ask(async (admin) => (await admin.members(groupId)).sort()),
    moveTo: async (offsets) => {
      if (offsets.size === 0) return;
      await inquiry.ask((admin) => admin.moveGroup({ groupId, topic }, offsets));
    },
    close: () => inquiry.close(),
  };
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
        const time = new Date(Date.now() - ageMs);
        const found = await inquiry.ask((admin) => admin.since(topic, time));
        // The offset of the first record that is younger; whatever is unread before it is older.
        return [...found].some(([partition, offset]) => {
          const next = position.unread.get(partition);
          return next !== undefined && next < offset;
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
  const [there, committed] = await Promise.all([
    inquiry.ask((admin) => admin.bounds(topic)),
    inquiry.ask((admin) => admin.committed({ groupId, topic })),
  ]);
  const unread = new Map<number, bigint>();
  let [records, dropped] = [0n, 0n];
  for (const [partition, { start: first, end }] of there) {
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
    bounds: () => inquiry.ask((admin) => admin.bounds(topic)),
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
    const committed = await inquiry.ask((admin) => admin.committed({ groupId, topic }));
    if ([...committed.values()].every((offset) => offset === -1n)) return [];
    const compare = async () => {
      const bounds = await inquiry.ask((admin) => admin.bounds(topic));
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
    // Not as an error of the library, by which it would join again and forget where it was.
    throw new Error(`Kafka did not say why partition ${partition} goes on at ${first}`, {
      cause: error,
    });
  } finally {
    await log.close();
  }
}
