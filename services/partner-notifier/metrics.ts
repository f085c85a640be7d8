import type { EventsMetrics } from '@triplock/inbox';
import { Counter, Gauge, type Registry } from '@triplock/runtime';

/** What the notifier counts. */
export type NotifierMetrics = EventsMetrics & {
  /** Attempts by what they came to. */
  attempts: Counter<'outcome'>;
  /** Deliveries without success to the last attempt: each needs a person. */
  givenUp: Counter;
  /** Endpoints that were disabled by a 410 Gone. */
  endpointsGone: Counter;
  /** Attempts that were answered after their lease had ended. */
  overtaken: Counter;
  /** Inbox rows and delivered webhooks that left by age. */
  reaped: Counter<'what'>;
  waiting: Gauge;
  oldestSeconds: Gauge;
};

/** Registers the notifier's metrics. */
export function notifierMetrics(registry: Registry): NotifierMetrics {
  const registers = [registry];
  return {
    events: new Counter({
      name: 'triplock_notifier_events_total',
      help: 'Events received, by outcome of the inbox',
      labelNames: ['outcome'],
      registers,
    }),
    refusedMessages: new Counter({
      name: 'triplock_notifier_refused_messages_total',
      help: 'Messages that are no event of ours, kept and acknowledged',
      labelNames: ['reason'],
      registers,
    }),
    attempts: new Counter({
      name: 'triplock_webhook_attempts_total',
      help: 'Webhook attempts, by what they came to',
      labelNames: ['outcome'],
      registers,
    }),
    givenUp: new Counter({
      name: 'triplock_webhooks_given_up_total',
      help: 'Deliveries that failed to the end of their retries',
      registers,
    }),
    endpointsGone: new Counter({
      name: 'triplock_webhook_endpoints_gone_total',
      help: 'Endpoints disabled because their server answered 410 Gone',
      registers,
    }),
    overtaken: new Counter({
      name: 'triplock_webhooks_overtaken_total',
      help: 'Attempts whose lease had ended before they were recorded',
      registers,
    }),
    reaped: new Counter({
      name: 'triplock_notifier_reaped_total',
      help: 'Rows that left by age: inbox, deliveries',
      labelNames: ['what'],
      registers,
    }),
    waiting: new Gauge({
      name: 'triplock_webhooks_waiting',
      help: 'Deliveries that are still to be made',
      registers,
    }),
    oldestSeconds: new Gauge({
      name: 'triplock_webhooks_oldest_waiting_seconds',
      help: 'Age of the oldest delivery that is still to be made',
      registers,
    }),
  };
}
