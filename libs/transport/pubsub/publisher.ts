import { DeadlineError, inSpan, withDeadline, type SpanSpec } from '@triplock/runtime';
import {
  keepClient,
  onceWithin,
  openPublisherApi,
  status,
  statusOf,
  type PubSubConnection,
} from './client.ts';

/** A message to publish. Messages of one ordering key are delivered in the order of their acks. */
export type OutgoingMessage = {
  orderingKey: string;
  data: Buffer;
  /** `event_id` is what consumers know a copy by: nothing is published without. */
  attributes: Readonly<Record<string, string> & { event_id: string }>;
};

/** What publishing one message came to, in the order given. */
export type PublishOutcome =
  | { outcome: 'published' }
  /**
   * The broker may or may not have it; or it was not sent because an earlier one of its key failed.
   */
  | { outcome: 'unknown'; error: Error }
  /** The broker will never take this message (too large, malformed). */
  | { outcome: 'unpublishable'; error: Error };

/** Publishes to one topic with ordering keys. */
export type Publisher = {
  /**
   * Publishes messages of one ordering key in order. After the first failure no later message of
   * the call is sent, and the key is open again for the next call. Answers within the publisher's
   * limit, whatever the broker does; nothing of the call is sent after that.
   */
  publishInOrder(messages: readonly OutgoingMessage[]): Promise<PublishOutcome[]>;
  ping(): Promise<void>;
  close(): Promise<void>;
};

/** Where to publish; `publishLimitMs` bounds one call of `publishInOrder`, 5 s by default. */
export type PublisherOptions = PubSubConnection & { topic: string; publishLimitMs?: number };

/** Limits of one PublishRequest (cloud.google.com/pubsub/quotas): 1000 messages, 10 MB. */
const requestMessagesMax = 1_000;
const requestBytesMax = 9_000_000;
const pingLimitMs = 2_000;
const clientFirstMs = 100;

/**
 * Opens a publisher. It sends PublishRequests itself and does not use the client's queue per key:
 * that queue retries for ten minutes, each lost reply a duplicate, and after a failure it lets
 * later messages of the key pass. Here one request carries many messages of one key and is tried
 * once.
 *
 * All requests of a call share one deadline, so that a caller who holds a key for a while knows
 * when nothing of the call is sent any more, however many requests a bad message makes of it.
 */
export function openPublisher(options: PublisherOptions): Publisher {
  const topic = `projects/${options.projectId}/topics/${options.topic}`;
  const limitMs = options.publishLimitMs ?? 5_000;
  const client = keepClient(() => openPublisherApi(options));

  const send = async (batch: Batch): Promise<void> => {
    const used = await client.get();
    const leftMs = batch.deadline - performance.now();
    if (leftMs <= 0) throw new DeadlineError('not sent: the time to publish was over');
    try {
      const { messages } = batch;
      await used.publish({ topic, messages: [...messages] }, onceWithin(Math.ceil(leftMs)));
    } catch (error) {
      if (statusOf(error) === status.deadlineExceeded) await client.forget(used);
      throw error;
    }
  };
  const ping = async (limitMs = pingLimitMs) => {
    await (await client.get()).getTopic({ topic }, onceWithin(limitMs));
  };
  const publish = async ({ messages, deadline }: Batch): Promise<PublishOutcome[]> => {
    // The client's own time-out comes first; only making a client has none.
    const limitMs = Math.max(0, deadline - performance.now()) + clientFirstMs;
    try {
      const limit = { ms: limitMs, what: 'Pub/Sub' };
      await inSpan(publishSpan(options.topic, messages), () =>
        withDeadline(send({ messages, deadline }), limit),
      );
      return messages.map(() => ({ outcome: 'published' }));
    } catch (error) {
      if (statusOf(error) !== status.invalidArgument) return fill(messages, 'unknown', error);
      if (messages.length === 1) return fill(messages, await blame(deadline), error);
      // One of them is bad and none was taken: halves find it, and those before it are published.
      const middle = messages.length >> 1;
      const halves = [messages.slice(0, middle), messages.slice(middle)];
      return publishOneAfterAnother(halves, deadline);
    }
  };
  /** The message is bad unless the topic cannot be asked for either, as with a malformed name. */
  const blame = (deadline: number) => {
    const leftMs = Math.ceil(deadline - performance.now());
    if (leftMs <= 0) return 'unknown';
    return ping(Math.min(leftMs, pingLimitMs)).then(
      () => 'unpublishable' as const,
      () => 'unknown' as const,
    );
  };
  const publishOneAfterAnother = async (
    requests: readonly (readonly OutgoingMessage[])[],
    deadline: number,
  ): Promise<PublishOutcome[]> => {
    const outcomes: PublishOutcome[] = [];
    for (const messages of requests) {
      const failed = outcomes.some(({ outcome }) => outcome !== 'published');
      outcomes.push(...(failed ? notSent(messages) : await publish({ messages, deadline })));
    }
    return outcomes;
  };
  return {
    publishInOrder: (messages) =>
      publishOneAfterAnother(requestsOf(messages), performance.now() + limitMs),
    ping: () => ping(),
    close: () => client.close(),
  };
}

/** Messages of one request, and until when they may be sent (`performance.now()`). */
type Batch = { messages: readonly OutgoingMessage[]; deadline: number };

function requestsOf(messages: readonly OutgoingMessage[]): OutgoingMessage[][] {
  const requests: OutgoingMessage[][] = [];
  let bytes = Infinity;
  for (const message of messages) {
    bytes += bytesOf(message);
    const request = requests.at(-1);
    if (request && request.length < requestMessagesMax && bytes <= requestBytesMax) {
      request.push(message);
    } else {
      requests.push([message]);
      bytes = bytesOf(message);
    }
  }
  return requests;
}

function bytesOf({ data, attributes }: OutgoingMessage): number {
  let bytes = data.length + 64; // Ordering key and framing.
  for (const name in attributes) bytes += name.length + attributes[name]!.length + 8;
  return bytes;
}

function fill(
  messages: readonly OutgoingMessage[],
  outcome: 'unknown' | 'unpublishable',
  error: unknown,
): PublishOutcome[] {
  return messages.map(() => ({ outcome, error: error as Error }));
}

function notSent(messages: readonly OutgoingMessage[]): PublishOutcome[] {
  return fill(messages, 'unknown', new Error('not sent: an earlier message of its key failed'));
}

/*
 * Spans of our own: those of Google's package are made by its high-level client, and here its API
 * is called (ADR 6). A message carries its context as `traceparent`, an attribute that consumers of
 * any language can read. Names and attributes are those of the semantic conventions
 * (opentelemetry.io/docs/specs/semconv/messaging/gcp-pubsub).
 */

/** One PublishRequest, as a part of what the caller does for all its messages. */
function publishSpan(topic: string, messages: readonly OutgoingMessage[]): SpanSpec {
  const attributes = {
    'messaging.system': 'gcp_pubsub',
    'messaging.operation.type': 'send',
    'messaging.operation.name': 'publish',
    'messaging.destination.name': topic,
    'messaging.batch.message_count': messages.length,
  };
  return { name: `send batch ${topic}`, kind: 'client', attributes };
}
