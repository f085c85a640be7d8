import { claimLifeMs } from '@triplock/contracts';
import type { Logger } from '@triplock/runtime';
import type { TopicRetention } from '@triplock/transport';

const hourMs = 3_600_000;

/**
 * Holds the accepted topic's retention against the life of a claim. For a day a retry is answered
 * from the claim alone: a record that the topic dropped unread within that day would be promised
 * again and again, and posted never.
 *
 * @throws with one sentence when the topic may drop records too early: the service must not run so.
 */
export function checkRetention(topic: string, retention: TopicRetention, logger: Logger): void {
  if (retention.outcome === 'unknown') {
    const { why } = retention;
    logger.warn({ topic, why }, 'Kafka did not report its retention: not checked');
    return;
  }
  const { retentionMs, retentionBytes, keepsEveryRecord } = retention;
  if (!keepsEveryRecord) {
    throw new Error(
      `topic ${topic} is compacted and may drop unread payments: set cleanup.policy to delete`,
    );
  }
  if (retentionMs <= claimLifeMs) {
    throw new Error(
      `topic ${topic} keeps records for ${Math.floor(retentionMs / hourMs)} hours (retention.ms): it must be more than the 24 hours for which a claim answers retries`,
    );
  }
  if (retentionBytes !== Infinity) {
    const message = 'the accepted topic is limited in size and may drop payments before their time';
    logger.warn({ topic, retentionBytes }, message);
  }
}
