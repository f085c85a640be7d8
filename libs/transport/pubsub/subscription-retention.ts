import {
  onceWithin,
  openPublisherApi,
  openSubscriberApi,
  type PubSubConnection,
} from './client.ts';

/** For how long messages can come again to a subscription, or why that is unknown. */
export type SubscriptionRetention =
  { outcome: 'known'; retentionMs: number } | { outcome: 'unknown'; why: string };

const answerLimitMs = 2_000;

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
    const limit = onceWithin(answerLimitMs);
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

type Duration = { seconds?: unknown } | null | undefined;

function millisecondsOf(duration: Duration): number | undefined {
  if (duration === null || duration === undefined) return undefined;
  return Number(duration.seconds ?? 0) * 1_000;
}
