import type { Logger, Pass } from '@triplock/runtime';
import type { TopicOffsets, TopicRetention, UnreadReader } from '@triplock/transport';
import type { TopicMetrics } from './metrics.ts';

/** What is watched, and what it is reported to. */
export type RetentionWatch = {
  unread: Pick<UnreadReader, 'look'>;
  readRetention: () => Promise<TopicRetention>;
  metrics: TopicMetrics;
  logger: Logger;
};

/** With so much of the time gone there is still some left to bring the workers back. */
const alarmAtRatio = 0.5;

/**
 * A pass that holds the worker's lag against Kafka's retention: a worker that stays away longer
 * than records are kept is the one way to lose an accepted payment. It never has more to do.
 */
export function watchRetention({ unread, readRetention, metrics, logger }: RetentionWatch): Pass {
  return async () => {
    const [{ records, oldestMs, dropped }, retention] = await Promise.all([
      unread.look(),
      readRetention(),
    ]);
    metrics.oldestUnreadSeconds.set(oldestMs / 1_000);
    metrics.unread.set(Number(records));
    metrics.unreadLooked.set(Date.now() / 1_000);
    metrics.droppedUnread.set(Number(dropped));
    if (dropped > 0n) {
      logger.error(
        { dropped: String(dropped) },
        'Kafka dropped accepted records that no worker read',
      );
    }
    if (retention.outcome === 'unknown') {
      logger.warn({ why: retention.why }, 'Kafka did not report its retention: lag not compared');
      return 0;
    }
    const used = oldestMs / retention.retentionMs;
    metrics.retentionUsed.set(used);
    if (used > alarmAtRatio) {
      const facts = { oldestSeconds: oldestMs / 1_000, used };
      logger.error(
        facts,
        'the ledger worker is so far behind that Kafka will drop unread payments',
      );
    }
    return 0;
  };
}

/** Kafka records that are in a topic and that its consumer has not finished. */
export type Lag = { worker: number; accepted: number; deadLetters: number };

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
