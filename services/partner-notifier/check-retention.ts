import type { Logger } from '@triplock/runtime';
import type { SubscriptionRetention } from '@triplock/transport';

const hourMs = 3_600_000;

/** For how long things are kept that must be outlived by the inbox; hours. */
export type Retentions = { inboxHours: number; outboxHours: number };

/**
 * Holds the inbox's memory against everything that can bring an event again: Pub/Sub's retention
 * and a republish from the outbox. The cursors would still keep a late copy from having an effect;
 * what would be lost is that an altered copy is told from a true one.
 *
 * @throws with one sentence when something outlives the inbox: the service must not run so.
 */
export function checkRetention(
  { inboxHours, outboxHours }: Retentions,
  { subscription, logger }: { subscription: SubscriptionRetention; logger: Logger },
): void {
  if (outboxHours > inboxHours) {
    throw new Error(
      `INBOX_RETENTION_HOURS is ${inboxHours} and OUTBOX_RETENTION_HOURS is ${outboxHours}: the inbox must remember an event for as long as it can be republished`,
    );
  }
  if (subscription.outcome === 'unknown') {
    const { why } = subscription;
    logger.warn({ why }, 'Pub/Sub does not tell its retention: not checked against the inbox');
    return;
  }
  const brokerHours = Math.ceil(subscription.retentionMs / hourMs);
  if (brokerHours > inboxHours) {
    throw new Error(
      `INBOX_RETENTION_HOURS is ${inboxHours} and Pub/Sub can deliver events again for ${brokerHours} hours: the inbox must remember an event for as long as it can come again`,
    );
  }
}
