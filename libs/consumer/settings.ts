import { address, integer, text, url, withDefault } from '@triplock/runtime';

/** The settings of whoever reads events by a subscription, which has this name by default. */
export function subscriptionSettings(subscription: string) {
  return {
    DATABASE_URL: url(['postgres:', 'postgresql:']),
    PUBSUB_PROJECT_ID: text,
    /** The emulator's `host:port`; absent, the real service is used. */
    PUBSUB_EMULATOR_HOST: withDefault(address, undefined),
    EVENTS_SUBSCRIPTION: withDefault(text, subscription),
    /** Messages under way at once: what one batch gathers cannot be more. */
    EVENTS_IN_FLIGHT_MAX: withDefault(integer({ min: 1, max: 10_000 }), 1_000),
  };
}

/** The settings of a consumer with an inbox. */
export function consumerSettings(subscription: string) {
  return {
    ...subscriptionSettings(subscription),
    /**
     * How long the inbox remembers an event: no shorter than Pub/Sub delivers it again, and than
     * the dispatchers keep it for publishing again. Both are compared.
     */
    INBOX_RETENTION_HOURS: withDefault(integer({ min: 24, max: 87_600 }), 720),
  };
}

/** The settings of a subscription as read. */
export type SubscriptionConfig = {
  PUBSUB_PROJECT_ID: string;
  PUBSUB_EMULATOR_HOST: string | undefined;
  EVENTS_SUBSCRIPTION: string;
  EVENTS_IN_FLIGHT_MAX: number;
};

/** The settings of a consumer with an inbox as read. */
export type ConsumerConfig = SubscriptionConfig & { INBOX_RETENTION_HOURS: number };
