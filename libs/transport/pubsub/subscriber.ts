import type { v1 } from '@google-cloud/pubsub';
import { inSpan, withDeadline, type Logger, type PaymentSpanSpec } from '@triplock/runtime';
import { supervise } from '../supervise.ts';
import {
  keepClient,
  onceWithin,
  openPublisherApi,
  openSubscriberApi,
  status,
  statusOf,
  type PubSubConnection,
} from './client.ts';
import {
  ackDeadlineSeconds,
  openInFlightMessages,
  type IncomingMessage,
  type InFlight,
  type MessageOutcome,
  type PulledMessage,
} from './in-flight-messages.ts';

/** A running subscription. `close` lets messages under way finish and gives the others back. */
export type Subscriber = { inFlight(): InFlight; ping(): Promise<void>; close(): Promise<void> };

/** Which messages to receive and what to do with each. */
export type SubscriberOptions = PubSubConnection & {
  subscription: string;
  /** Messages in flight at once. */
  maxInFlight: number;
  /**
   * Called for messages of one ordering key that wait in their order, before the outcome of
   * those before is known, and for later ones after it. A rejection is a `nack` that is logged.
   */
  handle(message: IncomingMessage): Promise<MessageOutcome>;
  logger: Logger;
};

const pingLimitMs = 2_000;
const answerLimitMs = 5_000;
const closeLimitMs = 10_000;

/**
 * Hands a subscription's messages to `handle`. It starts by itself, also when the broker or the
 * subscription is not there yet, and starts again after every error until it is closed.
 */
export function openSubscriber(options: SubscriberOptions): Subscriber {
  const { logger, maxInFlight } = options;
  const subscription = `projects/${options.projectId}/subscriptions/${options.subscription}`;
  const client = keepClient(() => openSubscriberApi(options));
  let stream: PullStream | undefined;

  /** What does not get through comes again: an ack that is lost costs a redelivery. */
  const answer = async (what: string, send: () => Promise<unknown>): Promise<void> => {
    try {
      await send();
    } catch (error) {
      logger.debug({ err: error }, `the broker did not get: ${what}`);
    }
  };
  const messages = openInFlightMessages({
    ...options,
    handle: (message) =>
      inSpan(processMessageSpan(options.subscription, message), () => options.handle(message)),
    acknowledge: (ackIds) =>
      answer('acks', async () => {
        const request = { subscription, ackIds };
        await (await client.get()).acknowledge(request, onceWithin(answerLimitMs));
      }),
    setDeadline: (ackIds, seconds) =>
      answer('deadlines', async () => {
        const request = { subscription, ackIds, ackDeadlineSeconds: seconds };
        await (await client.get()).modifyAckDeadline(request, onceWithin(answerLimitMs));
      }),
    onLeft: () => {
      if (messages.held() < maxInFlight) stream?.resume();
    },
  });

  const live = async (closing: Promise<never>): Promise<void> => {
    const used = await client.get();
    const request = { subscription, outstandingMax: maxInFlight };
    const opened = openPullStream(used, request, (pulled) => {
      messages.receive(pulled);
      if (messages.held() >= maxInFlight) opened.pause();
    });
    stream = opened;
    if (messages.held() >= maxInFlight) opened.pause();
    closing.catch(() => {
      opened.end();
      opened.resume(); // What the broker sent meanwhile must be read, and is given back.
    });
    try {
      await opened.ended;
    } catch (error) {
      if (statusOf(error) === status.deadlineExceeded) await client.forget(used);
      throw error;
    }
  };
  const lives = supervise({ what: `subscription ${options.subscription}`, live, logger });
  return {
    inFlight: () => messages.inFlight(),
    ping: async () => {
      await (await client.get()).getSubscription({ subscription }, onceWithin(pingLimitMs));
    },
    close: async () => {
      const closed = Promise.all([lives.close(), messages.close()]);
      const limit = { ms: closeLimitMs, what: 'the subscription' };
      await withDeadline(closed, limit).finally(() => client.close());
    },
  };
}

/** Messages of a subscription until the stream ends. */
type PullStream = {
  /** Resolves when the stream ended as planned; rejects when it broke. */
  ended: Promise<void>;
  /** Asks the broker for no more; `ended` resolves when it has answered. */
  end(): void;
  pause(): void;
  resume(): void;
};

/**
 * A broker that does not notice the death of a subscriber goes on giving messages to its stream,
 * and with them whole ordering keys, until the stream's deadline; the emulator does so after a kill
 * -9. So streams are short and are ended from here, and only a dead one meets its deadline.
 */
const streamLifeMs = 15_000;
const farewellMs = 5_000;

/** Opens a stream; the broker sends at most `outstandingMax` messages ahead of their acks. */
function openPullStream(
  client: v1.SubscriberClient,
  request: { subscription: string; outstandingMax: number },
  receive: (messages: readonly PulledMessage[]) => void,
): PullStream {
  const stream = client.streamingPull({ timeout: streamLifeMs + farewellMs });
  const timer = setTimeout(() => stream.end(), streamLifeMs);
  const ended = new Promise<void>((resolve, reject) => {
    stream.on('data', (response: { receivedMessages?: PulledMessage[] }) => {
      receive(response.receivedMessages ?? []);
    });
    stream.on('error', reject);
    stream.on('end', resolve);
  }).finally(() => clearTimeout(timer));
  stream.write({
    subscription: request.subscription,
    streamAckDeadlineSeconds: ackDeadlineSeconds,
    maxOutstandingMessages: request.outstandingMax,
  });
  return {
    ended,
    end: () => void stream.end(),
    pause: () => void stream.pause(),
    resume: () => void stream.resume(),
  };
}

/** One message, from its handing over to its outcome. */
function processMessageSpan(
  subscription: string,
  { id, attributes: carried }: IncomingMessage,
): PaymentSpanSpec {
  const attributes = {
    'messaging.system': 'gcp_pubsub',
    'messaging.operation.type': 'process',
    'messaging.operation.name': 'process',
    'messaging.destination.subscription.name': subscription,
    'messaging.message.id': id,
  };
  const parent = carried['traceparent'] ?? '';
  return { name: `process ${subscription}`, kind: 'consumer', attributes, parent };
}

/** For how long messages can come again to a subscription, or why that is unknown. */
export type SubscriptionRetention =
  { outcome: 'known'; retentionMs: number } | { outcome: 'unknown'; why: string };

/**
 * It is asked once, when a consumer starts, and what it could not ask stays unchecked: more time
 * than a call of a running service has. One that is away refuses the connection, and delays no
 * start.
 */
const retentionLimitMs = 10_000;

/**
 * Reads for how long a subscription may be sought back: its own `messageRetentionDuration` or its
 * topic's, whichever is longer (cloud.google.com/pubsub/docs/replay-overview). It never rejects.
 */
export async function readSubscriptionRetention(
  options: PubSubConnection & { subscription: string },
): Promise<SubscriptionRetention> {
  const { projectId, subscription: name } = options;
  const [subscriber, publisher] = await Promise.all([
    openSubscriberApi(options),
    openPublisherApi(options),
  ]);
  try {
    const limit = onceWithin(retentionLimitMs);
    const path = `projects/${projectId}/subscriptions/${name}`;
    const [subscription] = await subscriber.getSubscription({ subscription: path }, limit);
    const own = millisecondsOf(subscription.messageRetentionDuration);
    if (own === undefined)
      return { outcome: 'unknown', why: 'the subscription does not report it' };
    const topic = subscription.topic;
    // A deleted topic keeps nothing; Pub/Sub then writes its name as `_deleted-topic_`.
    if (!topic?.startsWith('projects/')) return { outcome: 'known', retentionMs: own };
    const [{ messageRetentionDuration }] = await publisher.getTopic({ topic }, limit);
    const retentionMs = Math.max(own, millisecondsOf(messageRetentionDuration) ?? 0);
    return { outcome: 'known', retentionMs };
  } catch (error) {
    return { outcome: 'unknown', why: error instanceof Error ? error.message : String(error) };
  } finally {
    await Promise.all([subscriber.close(), publisher.close()]);
  }
}

const skipLimitMs = 10_000;
const skippedAtOnce = 1_000;

/**
 * Has a subscription deliver nothing any more that was published before now. Nobody may be
 * receiving from it: what somebody has in hand still takes effect.
 *
 * It is a seek to now. An emulator knows no seek to a time: there all that it gives is
 * acknowledged.
 *
 * @throws when the broker does not answer, or has no such subscription.
 */
export async function skipBacklog(
  options: PubSubConnection & { subscription: string },
): Promise<void> {
  const subscription = `projects/${options.projectId}/subscriptions/${options.subscription}`;
  const client = await openSubscriberApi(options);
  const limit = onceWithin(skipLimitMs);
  try {
    const now = Date.now();
    const time = { seconds: Math.floor(now / 1_000), nanos: (now % 1_000) * 1e6 };
    await client.seek({ subscription, time }, limit).catch(async (error: unknown) => {
      if (statusOf(error) !== status.unimplemented) throw error;
      await acknowledgeAll(client, subscription);
    });
  } finally {
    await client.close();
  }
}

async function acknowledgeAll(client: v1.SubscriberClient, subscription: string): Promise<void> {
  const limit = onceWithin(skipLimitMs);
  const request = { subscription, maxMessages: skippedAtOnce, returnImmediately: true };
  for (;;) {
    const [{ receivedMessages }] = await client.pull(request, limit);
    const ackIds = (receivedMessages ?? []).flatMap(({ ackId }) => ackId ?? []);
    if (ackIds.length === 0) return;
    await client.acknowledge({ subscription, ackIds }, limit);
  }
}

type Duration = { seconds?: unknown } | null | undefined;

function millisecondsOf(duration: Duration): number | undefined {
  if (duration === null || duration === undefined) return undefined;
  return Number(duration.seconds ?? 0) * 1_000;
}
