import { decodePaymentEvent, type DecodedEvent } from '@triplock/contracts';
import { carriedTraceparent, annotateSpan, type Logger } from '@triplock/runtime';
import type { EventsMetrics, RefusalReason } from './events-metrics.ts';
import type { ReceivedEvent, ReceiveOutcome } from './inbox.ts';
import type { DeliveredMessage, RefusedMessages } from './refused-messages.ts';

/** What receiving a message needs. */
export type EventsParts = {
  /** The consumer's story: what became of the event is durable when it resolves. */
  receive(received: ReceivedEvent): Promise<ReceiveOutcome>;
  refusedMessages: RefusedMessages;
  metrics: EventsMetrics;
  logger: Logger;
  /** Called before anything was done with a message, and when what became of it is durable. */
  reached(step: 'received' | 'committed'): Promise<void>;
};

/** `ack`: durable here, never send it again. `nack`: send it again. */
type Verdict = 'ack' | 'nack';

/**
 * Answers each message of a subscription. `ack` only once what became of it is durable: the effect,
 * the knowledge that it is a duplicate, or the refused message itself.
 *
 * The handler throws when the database is away; the message then comes again.
 */
export function eventsHandler(parts: EventsParts) {
  return (message: DeliveredMessage): Promise<Verdict> =>
    parts.metrics.handleSeconds.time(
      () => handle(parts, message),
      (verdict) => verdict,
      'failed',
    );
}

async function handle(parts: EventsParts, message: DeliveredMessage): Promise<Verdict> {
  await parts.reached('received');
  const decoded = decodePaymentEvent(message);
  if (decoded.outcome === 'refused') return refuse(parts, message, decoded);
  const verdict = await judge(parts, message, decoded);
  await parts.reached('committed');
  return verdict;
}

async function judge(
  parts: EventsParts,
  message: DeliveredMessage,
  decoded: Extract<DecodedEvent, { outcome: 'event' }>,
): Promise<Verdict> {
  const { metrics, logger } = parts;
  const { event, payloadHash } = decoded;
  const traceparent = carriedTraceparent(decoded.traceparent);
  const received = await parts.receive({ event, payloadHash, traceparent });
  annotateSpan({
    'triplock.txn_id': event.txn_id,
    'triplock.partner_id': event.partner_id,
    'triplock.event_id': event.event_id,
    'triplock.guard.inbox': received.outcome,
  });
  if (received.outcome === 'unstorable') {
    return refuse(parts, message, { reason: 'unstorable', detail: received.detail });
  }
  metrics.events.count(received.outcome);
  const said = { eventId: event.event_id, txnId: event.txn_id, sequence: event.sequence };
  switch (received.outcome) {
    case 'applied':
      // The normal case, recorded by its rows: the inbox's and the effect's.
      logger.debug(said, 'event applied');
      return 'ack';
    case 'duplicate':
      metrics.caught.count('inbox');
      logger.info(said, 'event already known, nothing done');
      return 'ack';
    case 'altered':
      logger.error(
        { ...said, payloadHash, knownHash: received.knownHash },
        'a copy of a known event has different bytes: not applied',
      );
      return 'ack';
    case 'early':
      logger.debug({ ...said, expected: received.expected }, 'event came early, given back');
      return 'nack';
    default:
      return received satisfies never;
  }
}

async function refuse(
  { refusedMessages, metrics, logger }: EventsParts,
  message: DeliveredMessage,
  { reason, detail }: { reason: RefusalReason; detail: string },
): Promise<Verdict> {
  const outcome = await refusedMessages.record(message, { reason, detail });
  metrics.refusedMessages.count(reason);
  logger.error({ messageId: message.id, reason, detail, outcome }, 'message refused and kept');
  return 'ack';
}
