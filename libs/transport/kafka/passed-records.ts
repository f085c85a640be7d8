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
   * group has passed; of a partition some hundred at a time and in order. Gives up to where it
   * read.
   *
   * @throws when the brokers do not answer in time.
   */
  readPassed(from: Offsets, take: TakeRecords): Promise<Offsets>;
  /**
   * The same, and what the group's members may have in hand: they commit it later. Of `only` some
   * partitions, or of all.
   */
  readAgain(from: Offsets, take: TakeRecords, only?: readonly number[]): Promise<Offsets>;
  close(): Promise<void>;
};

type TakeRecords = (records: readonly ReceivedRecord[]) => Promise<void>;

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
  const read = async (
    from: Offsets,
    take: TakeRecords,
    { beyond, only }: { beyond: bigint; only?: readonly number[] | undefined },
  ): Promise<Offsets> => {
    const passed = await offsets.committed();
    const there = await inquiry.ask((admin) => admin.bounds(topic));
    const wantedOf = [...there].filter(([each]) => only?.includes(each) ?? true);
    const stretches = wantedOf.map(([partition, bounds]) => {
      const { start, end } = bounds;
      const to = (passed.get(partition) ?? start) + beyond;
      const begin = beginAt(from.get(partition) ?? start, bounds);
      return { partition, from: begin, to: to < end ? to : end };
    });
    await readInPieces(options, stretches, take);
    return new Map(
      stretches.map(({ partition, from: first, to }) => [partition, to > first ? to : first]),
    );
  };
  return {
    passed: offsets.committed,
    readPassed: (from, take) => read(from, take, { beyond: 0n }),
    readAgain: (from, take, only) => read(from, take, { beyond: inHandMax, only }),
    close: async () => {
      await Promise.all([offsets.close(), inquiry.close()]);
    },
  };
}
