import { decodePaymentEvent, type DecodedEvent } from '@triplock/contracts';
import type { Inbox, ReceivedEvent, RefusedMessages, Refusal } from '@triplock/inbox';
import { databaseErrorKind } from '@triplock/postgres';
import type { CrashPoints, Logger } from '@triplock/runtime';
import type { IncomingMessage, MessageVerdict } from '@triplock/transport';
import type { NotifierMetrics } from './metrics.ts';
import { notifyPartners } from './notify-partners.ts';

/** What receiving a message needs. */
export type EventsParts = {
  inbox: Inbox;
  refusedMessages: RefusedMessages;
  metrics: NotifierMetrics;
  logger: Logger;
  crashPoints: CrashPoints;
};

/**
 * Answers each message of the subscription. `ack` only once what became of it is durable: the
 * delivery row, the knowledge that it is a duplicate, or the refused message itself.
 *
 * @throws when the database is away; the message then comes again.
 */
export function eventsHandler(parts: EventsParts) {
  return async (message: IncomingMessage): Promise<MessageVerdict> => {
    await parts.crashPoints.reached('notifier.received');
    const decoded = decodePaymentEvent(message);
    if (decoded.outcome === 'refused') return refuse(parts, message, decoded);
    const verdict = await receive(parts, message, decoded);
    await parts.crashPoints.reached('notifier.committed');
    return verdict;
  };
}

async function receive(
  parts: EventsParts,
  message: IncomingMessage,
  decoded: Extract<DecodedEvent, { outcome: 'event' }>,
): Promise<MessageVerdict> {
  try {
    const received = await notifyPartners(parts.inbox, decoded);
    return judge(parts, decoded, received);
  } catch (error) {
    // It reads like an event and yet no redelivery will make the database take it.
    if (databaseErrorKind(error) !== 'data') throw error;
    return refuse(parts, message, { reason: 'unstorable', detail: messageOf(error) });
  }
}

function judge(
  { metrics, logger }: EventsParts,
  { event, payloadHash }: ReceivedEvent,
  received: Awaited<ReturnType<Inbox['receive']>>,
): MessageVerdict {
  metrics.events.inc({ outcome: received.outcome });
  const said = { eventId: event.event_id, txnId: event.txn_id, sequence: event.sequence };
  switch (received.outcome) {
    case 'applied':
      // The rule, and told by its rows: the inbox's, and the delivery's with every attempt.
      logger.debug(said, 'event applied');
      return 'ack';
    case 'duplicate':
      logger.info(said, 'event known, nothing done');
      return 'ack';
    case 'altered':
      logger.error(
        { ...said, payloadHash, knownHash: received.knownHash },
        'a copy of a known event has other bytes: not applied',
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
  message: IncomingMessage,
  { reason, detail }: Refusal,
): Promise<MessageVerdict> {
  const outcome = await refusedMessages.record(message, { reason, detail });
  metrics.refusedMessages.inc({ reason });
  logger.error({ messageId: message.id, reason, detail, outcome }, 'message refused and kept');
  return 'ack';
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
