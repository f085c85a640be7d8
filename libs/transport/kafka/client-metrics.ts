import { Counter, Tally, type Registry } from '@triplock/runtime';
import type { BrokerConnection } from './driver.ts';

/** Counts for how long brokers hold a service back, under one name in every service. */
export function meterThrottles(registry: Registry): NonNullable<BrokerConnection['onThrottled']> {
  const seconds = new Counter({
    name: 'triplock_kafka_throttled_seconds_total',
    help: 'Time for which brokers held this client back because of a quota.',
    registers: [registry],
  });
  return (ms) => seconds.inc(ms / 1_000);
}

/** Counts how often consumer groups were joined, by the topics that a service reads. */
export function groupJoins<Topic extends 'accepted' | 'dead_letter'>(
  registry: Registry,
  topics: Record<Topic, 0>,
): Tally<Topic> {
  return new Tally({
    name: 'triplock_kafka_group_joins_total',
    help: 'Times that a consumer group was joined, also again, by the topic that it reads.',
    label: 'topic',
    values: topics,
    registers: [registry],
  });
}
