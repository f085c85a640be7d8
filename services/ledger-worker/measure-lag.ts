import type { RecordBatch } from '@triplock/transport';
import type { RecordMetrics } from './metrics.ts';

/** Keeps the lag of each partition that is this worker's, by what its own fetches show. */
export type LagMeter = {
  /** The group was joined: what is not assigned any more is another worker's to tell of. */
  assigned(partitions: readonly number[]): void;
  /** A batch is in hand, or came to its end. */
  saw(batch: RecordBatch, progress: 'in-hand' | 'committed'): void;
};

/**
 * Opens a meter. A partition that nothing was fetched from has no lag that this worker knows of.
 */
export function meterLag({ lag }: Pick<RecordMetrics, 'lag'>): LagMeter {
  const own = new Set<number>();
  return {
    assigned: (partitions) => {
      for (const partition of own) if (!partitions.includes(partition)) lag.remove({ partition });
      for (const partition of partitions) if (!own.has(partition)) lag.set({ partition }, 0);
      own.clear();
      for (const partition of partitions) own.add(partition);
    },
    saw: ({ partition, records, end }, progress) => {
      // A batch that outlived its assignment says nothing that the next owner does not say better.
      if (!own.has(partition)) return;
      const next = progress === 'in-hand' ? records[0]!.offset : records.at(-1)!.offset + 1n;
      lag.set({ partition }, Number(end - next));
    },
  };
}
