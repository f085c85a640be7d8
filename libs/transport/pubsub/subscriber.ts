import { inSpan, withDeadline, type Logger } from '@triplock/runtime';
import { supervise } from '../supervise.ts';
import { keepClient } from './keep-client.ts';
import { openMessageDesk } from './message-desk.ts';
import {
  onceWithin,
  openSubscriberApi,
  status,
  statusOf,
  type PubSubConnection,
} from './pubsub-client.ts';
import { processMessageSpan } from './pubsub-spans.ts';
import { openPullStream, type PullStream } from './pull-stream.ts';
import type { IncomingMessage, MessageVerdict, Subscriber } from './topic.ts';

/** Which messages to receive and what to do with each. */
export type SubscriberOptions = PubSubConnection & {
  subscription: string;
  /** Messages in hand at once. */
  maxInFlight: number;
  /**
   * Called for messages of one ordering key that wait in their order, before there is a verdict on
   * those before, and for later ones after it. A rejection is a `nack` that is logged.
   */
  handle(message: IncomingMessage): Promise<MessageVerdict>;
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
  const tell = async (what: string, send: () => Promise<unknown>): Promise<void> => {
    try {
      await send();
    } catch (error) {
      logger.debug({ err: error }, `the broker was not told: ${what}`);
    }
  };
  const desk = openMessageDesk({
    ...options,
    handle: (message) =>
      inSpan(processMessageSpan(options.subscription, message), () => options.handle(message)),
    acknowledge: (ackIds) =>
      tell('acks', async () => {
        const request = { subscription, ackIds };
        await (await client.get()).acknowledge(request, onceWithin(answerLimitMs));
      }),
    setDeadline: (ackIds, ackDeadlineSeconds) =>
      tell('deadlines', async () => {
        const request = { subscription, ackIds, ackDeadlineSeconds };
        await (await client.get()).modifyAckDeadline(request, onceWithin(answerLimitMs));
      }),
    onLeft: () => {
      if (desk.held() < maxInFlight) stream?.resume();
    },
  });

  const live = async (closing: Promise<never>): Promise<void> => {
    const used = await client.get();
    const request = { subscription, outstandingMax: maxInFlight };
    const opened = openPullStream(used, request, (messages) => {
      desk.receive(messages);
      if (desk.held() >= maxInFlight) opened.pause();
    });
    stream = opened;
    if (desk.held() >= maxInFlight) opened.pause();
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
    inHand: () => desk.inHand(),
    ping: async () => {
      await (await client.get()).getSubscription({ subscription }, onceWithin(pingLimitMs));
    },
    close: async () => {
      const closed = Promise.all([lives.close(), desk.close()]);
      const limit = { ms: closeLimitMs, what: 'the subscription' };
      await withDeadline(closed, limit).finally(() => client.close());
    },
  };
}
