import { openInquiry } from './ask-brokers.ts';
import type { BrokerConnection } from './kafka-client.ts';
import type { Offsets } from './log.ts';

/** How far a topic goes and how far a group came. Each answer within 2 s, or an error. */
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

function offsetsOf(partitions: readonly { partition: number; offset: string }[]): Offsets {
  return new Map(
    partitions.map(({ partition, offset }) => {
      const next = BigInt(offset);
      return [partition, next > 0n ? next : 0n]; // -1 says that nothing was committed yet.
    }),
  );
}
