import type { Logger } from '@triplock/runtime';
import type { OutboxRetention } from './postgres/read-outbox-retention.ts';

const hourMs = 3_600_000;

/** For how long messages can come again to a subscription, or why that is unknown. */
type SubscriptionRetention =
  { outcome: 'known'; retentionMs: number } | { outcome: 'unknown'; why: string };

/** What can bring an event again, and for how long. */
export type Sources = { subscription: SubscriptionRetention; outbox: OutboxRetention };

/**
 * Holds the inbox's memory against everything that can bring an event again: Pub/Sub's retention
 * and a republish from the outbox. The cursors would still keep a late copy from having an effect;
 * what would be lost is that an altered copy can be distinguished from a true one.
 *
 * @throws with one sentence when something outlives the inbox: the service must not run so.
 */
export function checkRetention(
  inboxHours: number,
  { subscription, outbox, logger }: Sources & { logger: Logger },
): void {
  const problem = whyTooShort(inboxHours, { subscription, outbox });
  if (problem !== undefined) throw new Error(problem);
  const sources = { 'Pub/Sub': subscription, 'the outbox': outbox };
  for (const [source, retention] of Object.entries(sources)) {
    if (retention.outcome === 'known') continue;
    const { why } = retention;
    logger.warn({ why }, `${source} did not report its retention: not checked against the inbox`);
  }
}

/** In one sentence, what outlives the inbox; `undefined` when nothing that is known does. */
export function whyTooShort(
  inboxHours: number,
  { subscription, outbox }: Sources,
): string | undefined {
  const tooShort = (source: string, { retentionMs }: { retentionMs: number }) => {
    const hours = Math.ceil(retentionMs / hourMs);
    return hours > inboxHours
      ? `INBOX_RETENTION_HOURS is ${inboxHours} and ${source} for ${hours} hours: the inbox must remember an event for as long as it can come again`
      : undefined;
  };
  if (outbox.outcome === 'known') {
    const problem = tooShort("the dispatchers' OUTBOX_RETENTION_HOURS keep events", outbox);
    if (problem !== undefined) return problem;
  }
  if (subscription.outcome === 'known') {
    return tooShort('Pub/Sub can deliver events again', subscription);
  }
  return undefined;
}
