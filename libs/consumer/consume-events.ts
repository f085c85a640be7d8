import { decodePaymentEvent, eventOf, type PaymentEvent } from '@triplock/contracts';
import {
  openInbox,
  openInboxReaper,
  openRefusedMessages,
  type DeliveredMessage,
  type Effect,
  type Inbox,
  type ReceivedEvent,
  type ReceiveOutcome,
} from '@triplock/inbox';
import type { Database } from '@triplock/postgres';
import {
  carriedTraceparent,
  inBatches,
  inBatchSpan,
  runLoop,
  annotateSpan,
  type BatchLimits,
  type Service,
} from '@triplock/runtime';
import { openSubscriber, readSubscriptionRetention, type Subscriber } from '@triplock/transport';
import {
  earlyGauges,
  inboxMetrics,
  messageMetrics,
  watchInFlight,
  type InboxMetrics,
  type RefusalReason,
} from './metrics.ts';
import type { ConsumerConfig, SubscriptionConfig } from './settings.ts';

/** Who reads the events topic. */
export type Reader = {
  /** Its name in its tables. Under another name nothing was ever received. */
  name: string;
  /** Its name in metrics and in the two crash points that service.ts declares for it. */
  shortName: string;
  /** Its tables are those of the role's schema. */
  database: Database;
};

/** A consumer: a reader with an inbox and an effect. */
export type Consumer = Reader & {
  /** What is done about events, in the transaction that remembers them. */
  effect: Effect<PaymentEvent>;
  /** Events that come together share a transaction: fewer and larger ones cost less. */
  batch: BatchLimits;
  /** Counts inbox rows that were removed by age. */
  countReaped(rows: number): void;
};

/** The part of a service that handling a message needs. */
type Process = Pick<Service, 'logger' | 'metrics' | 'crashPoints'>;

const reapEveryMs = 60_000;
const followUpEveryMs = 10_000;

/**
 * Consumes a subscription's events until the service closes: each takes effect once and in the
 * sequence of its ordering key, poison messages are kept aside, and what the inbox remembers is
 * removed when nothing can bring it again.
 *
 * @throws with one sentence when something can bring events again after the inbox forgot them: the
 * service must not run so.
 */
export async function consumeEvents(
  service: Service,
  config: ConsumerConfig,
  consumer: Consumer,
): Promise<Subscriber> {
  const { database } = consumer;
  const inbox = openInbox(database, consumer.name);
  const reapInbox = await openInboxReaper({
    inbox,
    database,
    keepHours: config.INBOX_RETENTION_HOURS,
    subscription: await readSubscriptionRetention(subscriptionOf(config)),
    logger: service.logger,
  });
  const pass = async () => {
    const rows = await reapInbox();
    consumer.countReaped(rows);
    return rows;
  };
  const reaper = runLoop(pass, { name: 'reap', idleMs: reapEveryMs, logger: service.logger });
  service.onClose('reaper', () => reaper.stop());
  followUpEarly(service, inbox, consumer);
  return subscribe(service, config, consumer, handlerOf(service, consumer));
}

/** Periodically applies what came early and waits no more, and shows what still does. */
function followUpEarly(service: Service, inbox: Inbox, { shortName, effect }: Consumer): void {
  const show = earlyGauges(service.metrics, `triplock_${shortName}`);
  const pass = async () => {
    show(await inbox.followUp(effect));
    return 0;
  };
  const { logger } = service;
  const loop = runLoop(pass, { name: 'follow up early events', idleMs: followUpEveryMs, logger });
  service.onClose('early events', () => loop.stop());
}

/**
 * Hands a subscription's events to a reader without an inbox, for which a copy is a fact like any
 * other; `receive` resolves when what the event was is durable.
 */
export function readEvents(
  service: Service,
  config: SubscriptionConfig,
  reader: Reader & { receive: ReceiveEvent },
): Subscriber {
  return subscribe(service, config, reader, messageHandler(service, reader, reader.receive));
}

/** Answers each message of a consumer, without a subscription of its own. */
export function handlerOf(process: Process, consumer: Consumer): HandleMessage {
  const { database, name, shortName, effect, batch } = consumer;
  const inbox = openInbox(database, name);
  const metrics = inboxMetrics(process.metrics, `triplock_${shortName}`);
  const receive = inBatches((events: readonly ReceivedEvent<PaymentEvent>[]) => {
    const of = () => events.flatMap(({ traceparent }) => traceparent ?? []);
    return inBatchSpan({ name: 'admit events', of }, async () => {
      const outcomes = await inbox.receive(events, effect);
      const known = events.filter((_, n) => outcomes[n]!.outcome === 'duplicate');
      logCopies(process.logger, known, 'events already known, nothing done');
      return outcomes;
    });
  }, batch);
  return messageHandler(process, consumer, async (event) => {
    return answerOf(process, metrics, event, await receive(event));
  });
}

const idsShownMax = 5;

/**
 * Says in one line that a batch had events which came before: a replay of a month would flood a log
 * that names each.
 */
export function logCopies(
  logger: Process['logger'],
  copies: readonly Pick<ReceivedEvent, 'id'>[],
  message: string,
): void {
  if (copies.length === 0) return;
  const eventIds = copies.slice(0, idsShownMax).map(({ id }) => id);
  logger.info({ count: copies.length, eventIds }, message);
}

function answerOf(
  { logger }: Process,
  metrics: InboxMetrics,
  event: ReceivedEvent<PaymentEvent>,
  received: ReceiveOutcome,
): EventAnswer {
  annotateSpan({ 'triplock.guard.inbox': received.outcome });
  if (received.outcome === 'unstorable') return { answer: 'unstorable', detail: received.detail };
  metrics.events.count(received.outcome);
  const { id: eventId, sequence, payload, payloadHash } = event;
  const ids = { eventId, txnId: payload.txn_id, sequence };
  switch (received.outcome) {
    case 'applied':
      // The normal case, recorded by its rows: the inbox's and the effect's.
      logger.debug(ids, 'event applied');
      return { answer: 'ack' };
    case 'duplicate':
      metrics.caught.count('inbox');
      return { answer: 'ack' };
    case 'altered':
      logger.error(
        { ...ids, payloadHash, knownHash: received.knownHash },
        'a copy of a known event has different bytes: not applied',
      );
      return { answer: 'ack' };
    case 'early':
      logger.debug({ ...ids, expected: received.expected }, 'event came early, kept');
      return { answer: 'ack' };
    case 'returned':
      // With ordering the broker brings its whole ordering key again.
      logger.warn({ ...ids, expected: received.expected }, 'too many events came early: returned');
      return { answer: 'nack' };
    default:
      return received satisfies never;
  }
}

/**
 * `ack`: durable here, never send it again. `nack`: send it again. `unstorable`: it reads like an
 * event, and yet no redelivery will make the database take it.
 */
export type EventAnswer = { answer: 'ack' | 'nack' } | { answer: 'unstorable'; detail: string };

/** Receives one event; what became of it is durable when it resolves. */
export type ReceiveEvent = (event: ReceivedEvent<PaymentEvent>) => Promise<EventAnswer>;

type HandleMessage = (message: DeliveredMessage) => Promise<'ack' | 'nack'>;

/**
 * Answers each message, and with `ack` only once what became of it is durable: the effect, the
 * knowledge that it is a duplicate, the event that came early, or the refused message itself. A
 * crash before that answer costs a redelivery.
 *
 * The handler throws when the database is away; the message then comes again.
 */
export function messageHandler(
  process: Process,
  { database, name, shortName }: Reader,
  receive: ReceiveEvent,
): HandleMessage {
  const { logger, crashPoints } = process;
  const metrics = messageMetrics(process.metrics, `triplock_${shortName}`);
  const refusedMessages = openRefusedMessages(database, name);

  const refuse = async (message: DeliveredMessage, reason: RefusalReason, detail: string) => {
    const outcome = await refusedMessages.record(message, { reason, detail });
    metrics.refusedMessages.count(reason);
    logger.error({ messageId: message.id, reason, detail, outcome }, 'message refused and kept');
    return 'ack' as const;
  };
  const handle = async (message: DeliveredMessage) => {
    const decoded = decodePaymentEvent(message);
    if (decoded.outcome === 'refused') return refuse(message, decoded.reason, decoded.detail);
    const { event: payload, payloadHash } = decoded;
    annotateSpan({
      'triplock.txn_id': payload.txn_id,
      'triplock.partner_id': payload.partner_id,
      'triplock.event_id': payload.event_id,
    });
    const traceparent = carriedTraceparent(decoded.traceparent);
    const received = await receive({ ...eventOf(payload), payloadHash, traceparent });
    if (received.answer !== 'unstorable') return received.answer;
    return refuse(message, 'unstorable', received.detail);
  };
  const handleToTheEnd = async (message: DeliveredMessage) => {
    await crashPoints.reached(`${shortName}.received`);
    const answer = await handle(message);
    await crashPoints.reached(`${shortName}.committed`);
    return answer;
  };
  return (message) =>
    metrics.handleSeconds.time(
      () => handleToTheEnd(message),
      (answer) => answer,
      'failed',
    );
}

function subscribe(
  service: Service,
  config: SubscriptionConfig,
  { shortName }: Reader,
  handle: HandleMessage,
): Subscriber {
  const subscriber = openSubscriber({
    ...subscriptionOf(config),
    maxInFlight: config.EVENTS_IN_FLIGHT_MAX,
    logger: service.logger,
    handle,
  });
  service.onClose('subscriber', () => subscriber.close());
  watchInFlight(service.metrics, `triplock_${shortName}`, subscriber.inFlight);
  return subscriber;
}

function subscriptionOf(config: SubscriptionConfig) {
  return {
    projectId: config.PUBSUB_PROJECT_ID,
    emulatorHost: config.PUBSUB_EMULATOR_HOST,
    subscription: config.EVENTS_SUBSCRIPTION,
  };
}
