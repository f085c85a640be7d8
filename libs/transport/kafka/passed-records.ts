import { openInquiry } from './brokers.ts';
import type { BrokerConnection, Offsets, ReceivedRecord } from './driver.ts';
import { openTopicOffsets } from './offsets.ts';
import { beginAt, readInPieces } from './read-in-pieces.ts';

/**
 * What a group has passed of a topic, to be read once more beside the group: it goes on from where
 * it is.
 */
export type PassedRecords = {
  /** The group's next offset, by partition, as {@link openTopicOffsets} has it. */
  passed(): Promise<Offsets>;
  /**
   * Reads from offsets on, where they are not in the log, or not given, from its start, what the
   * group has passed and what its members may have in hand; of a partition some hundred at a time
   * and in order. `isPassed` tells which of the two a record is. Gives up to where it read. Of
   * `only` some partitions, or of all.
   *
   * @throws when the brokers do not answer in time.
   */
  readAgain(
    from: Offsets,
    take: (
      records: readonly ReceivedRecord[],
      isPassed: (record: ReceivedRecord) => boolean,
    ) => Promise<void>,
    only?: readonly number[],
  ): Promise<Offsets>;
  close(): Promise<void>;
};

/**
 * A member has what one fetch brought of a partition in hand (`fetchBytes.ofPartitionMax`), and
 * commits its end later: well packed that is some ten thousand of the smallest payments.
 */
const inHandMax = 50_000n;

/** Opens a reader; it connects when first asked. */
export function openPassedRecords(
  options: BrokerConnection & { topic: string; groupId: string },
): PassedRecords {
  const { topic } = options;
  const offsets = openTopicOffsets(options);
  const inquiry = openInquiry(options);
  return {
    passed: offsets.committed,
    readAgain: async (from, take, only) => {
      const passed = await offsets.committed();
      const there = await inquiry.ask((admin) => admin.bounds(topic));
      const wantedOf = [...there].filter(([each]) => only?.includes(each) ?? true);
      const stretches = wantedOf.map(([partition, bounds]) => {
        const { start, end } = bounds;
        const inHand = (passed.get(partition) ?? start) + inHandMax;
        return {
          partition,
          from: beginAt(from.get(partition) ?? start, bounds),
          to: inHand < end ? inHand : end,
        };
      });
      const isPassed = ({ partition, offset }: ReceivedRecord) =>
        offset < (passed.get(partition) ?? 0n);
      await readInPieces(options, stretches, (records) => take(records, isPassed));
      return new Map(
        stretches.map(({ partition, from: first, to }) => {
          return [partition, to > first ? to : first];
        }),
      );
    },
    close: async () => {
      await Promise.all([offsets.close(), inquiry.close()]);
    },
  };
}
