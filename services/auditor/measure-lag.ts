import type { TopicOffsets } from '@triplock/transport';
import type { Lag } from './audit-result.ts';

/** How far a topic goes, and how far its consumer came. */
type Positions = Pick<TopicOffsets, 'end' | 'committed'>;

/** The topics whose consumers the audit waits for. */
export type LagReaders = Readonly<Record<keyof Lag, Positions>>;

/** How many records of each topic its consumer has not finished. Rejects when Kafka is away. */
export async function measureLag(readers: LagReaders): Promise<Lag> {
  const [worker, accepted, deadLetters] = await Promise.all([
    lagOf(readers.worker),
    lagOf(readers.accepted),
    lagOf(readers.deadLetters),
  ]);
  return { worker, accepted, deadLetters };
}

async function lagOf(offsets: Positions): Promise<number> {
  const [end, committed] = await Promise.all([offsets.end(), offsets.committed()]);
  let records = 0n;
  for (const [partition, next] of end) {
    const done = committed.get(partition) ?? 0n;
    if (next > done) records += next - done;
  }
  return Number(records);
}
