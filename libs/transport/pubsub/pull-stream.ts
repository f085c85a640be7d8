import type { protos, v1 } from '@google-cloud/pubsub';

/** A message with the id by which it is acknowledged. */
export type PulledMessage = protos.google.pubsub.v1.IReceivedMessage;

/** Messages of a subscription until the stream ends. */
export type PullStream = {
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
 * -9. So streams are short and end by a word, and only a dead one meets its deadline.
 */
const streamLifeMs = 15_000;
const farewellMs = 5_000;
/** The shortest that Pub/Sub allows: so long a message stays with a subscriber that died. */
export const ackDeadlineSeconds = 10;

/** Opens a stream; the broker sends at most `outstandingMax` messages ahead of their acks. */
export function openPullStream(
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
