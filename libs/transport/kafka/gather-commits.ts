import type { Offsets } from './log.ts';

/** Commits one partition's next offset; resolves when the brokers have it. */
export type CommitOffset = (partition: number, nextOffset: bigint) => Promise<void>;

/**
 * Lets commits of several partitions share a request: while one is under way, others gather for
 * the next. All that went together fail together.
 */
export function gatherCommits(commit: (offsets: Offsets) => Promise<void>): CommitOffset {
  let gathering: { offsets: Map<number, bigint>; done: Promise<void> } | undefined;
  let underWay: Promise<unknown> = Promise.resolve();

  const startGathering = () => {
    const offsets = new Map<number, bigint>();
    const done = underWay.then(() => {
      gathering = undefined;
      return commit(offsets);
    });
    underWay = done.catch(() => undefined); // Whoever gathered gets the error.
    return { offsets, done };
  };
  return (partition, nextOffset) => {
    gathering ??= startGathering();
    gathering.offsets.set(partition, nextOffset);
    return gathering.done;
  };
}
