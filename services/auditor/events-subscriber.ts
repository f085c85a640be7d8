import { decodePaymentEvent, type DecodedEvent } from '@triplock/contracts';
import type { RefusalReason, RefusedMessages } from '@triplock/inbox';
import { carriedTraceparent, annotateSpan, type CrashPoints, type Logger } from '@triplock/runtime';
import type { IncomingMessage, MessageVerdict } from '@triplock/transport';
import type { AuditorMetrics } from './metrics.ts';
import type { Delivery, SeenEvent } from './record-published.ts';

/** What receiving a message needs. */
export type EventsParts = {
  /** What it was is durable when it resolves. */
  count(delivery: Delivery & { traceparent: string }): Promise<SeenEvent>;
  refusedMessages: RefusedMessages;
  metrics: AuditorMetrics;
  logger: Logger;
  crashPoints: CrashPoints;
};

/**
 * Counts each message of the auditor's own subscription, and acknowledges it once that is durable.
 *
 * @throws when the database is away; the message then comes again.
 */
export function eventsHandler(parts: EventsParts) {
  const handle = async (message: IncomingMessage): Promise<MessageVerdict> => {
    const decoded = decodePaymentEvent(message);
    if (decoded.outcome === 'refused') await refuse(parts, message, decoded);
    else await count(parts, message, decoded);
    await parts.crashPoints.reached('auditor.committed');
    return 'ack';
  };
  return (message: IncomingMessage): Promise<MessageVerdict> =>
    parts.metrics.handleSeconds.time(
      () => handle(message),
      (verdict) => verdict,
      'failed',
    );
}

async function count(
  parts: EventsParts,
  message: IncomingMessage,
  decoded: Extract<DecodedEvent, { outcome: 'event' }>,
): Promise<void> {
  const { event, payloadHash } = decoded;
  const traceparent = carriedTraceparent(decoded.traceparent);
  const seen = await parts.count({ event, payloadHash, traceparent });
  if (seen.outcome === 'unstorable') {
    return refuse(parts, message, { reason: 'unstorable', detail: seen.detail });
  }
  annotateSpan({ 'triplock.txn_id': event.txn_id, 'triplock.event_id': event.event_id });
  parts.metrics.events.count(seen.outcome);
  const said = { eventId: event.event_id, txnId: event.txn_id, ...seen };
  // A first copy is normal, and its row says more than a line would.
  if (seen.outcome === 'first') parts.logger.debug(said, 'event seen');
  else if (seen.outcome === 'copy') parts.logger.info(said, 'event seen again');
  else parts.logger.error({ ...said, payloadHash }, 'a copy of an event has different bytes');
}

async function refuse(
  { refusedMessages, metrics, logger }: EventsParts,
  message: IncomingMessage,
  { reason, detail }: { reason: RefusalReason; detail: string },
): Promise<void> {
  const outcome = await refusedMessages.record(message, { reason, detail });
  metrics.refusedMessages.count(reason);
  logger.error({ messageId: message.id, reason, detail, outcome }, 'message refused and kept');
}
