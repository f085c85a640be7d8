import type { Logger, Pass } from '@triplock/runtime';
import type { TopicRetention, UnreadReader } from '@triplock/transport';
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
