import type { Offsets, TopicOffsets } from '@triplock/transport';

/** Tells whether the ledger has posted everything that was in the topic at a barrier. */
export type Progress = { hasPassed(barrier: string): Promise<boolean> };

// Kafka is asked for all waiting requests together, and this often at most.
const askEveryMs = 100;

/** Writes offsets down as a barrier. */
export function writeBarrier(end: Offsets): string {
  return JSON.stringify(Object.fromEntries([...end].map(([key, offset]) => [key, `${offset}`])));
}

/**
 * Watches the offsets that the ledger's workers have committed. An offset is committed only after
 * its row is in the ledger, so what was passed once stays passed: the highest offset seen counts,
 * also when an operator resets the group to read the topic again.
 */
export function watchProgress(offsets: Pick<TopicOffsets, 'committed'>): Progress {
  const reached = new Map<number, bigint>();
  let asked: Promise<void> | undefined;
  let askedAt = -Infinity;

  const ask = async () => {
    askedAt = performance.now();
    for (const [partition, offset] of await offsets.committed()) {
      if (offset > (reached.get(partition) ?? 0n)) reached.set(partition, offset);
    }
  };
  const covers = (barrier: Offsets) =>
    [...barrier].every(([partition, offset]) => (reached.get(partition) ?? 0n) >= offset);

  return {
    async hasPassed(text) {
      const barrier = readBarrier(text);
      if (covers(barrier)) return true;
      if (asked === undefined && performance.now() - askedAt < askEveryMs) return false;
      asked ??= ask().finally(() => (asked = undefined));
      await asked;
      return covers(barrier);
    },
  };
}

function readBarrier(text: string): Offsets {
  const written = JSON.parse(text) as Record<string, string>;
  return new Map(Object.entries(written).map(([key, offset]) => [Number(key), BigInt(offset)]));
}
