import { Counter, Durations, Gauge, Tally, usualBuckets, type Registry } from '@triplock/runtime';
import type { WebhookOutcome } from './webhook-client.ts';

/** What the notifier counts, beside its inbox. */
export type NotifierMetrics = {
  /** Attempts by what they came to. */
  attempts: Tally<WebhookOutcome['outcome']>;
  attemptSeconds: Durations<WebhookOutcome['outcome'] | 'failed'>;
  /** Deliveries without success to the last attempt: each needs a person. */
  givenUp: Counter;
  /** Endpoints that were disabled by a 410 Gone. */
  endpointsGone: Counter;
  /** Attempts that were answered after their lease had ended. */
  overtaken: Counter;
  /** Inbox rows and delivered webhooks that were removed by age. */
  reaped: Tally<'inbox' | 'deliveries'>;
  waiting: Gauge;
  oldestSeconds: Gauge;
};

/** Registers the notifier's metrics. */
export function notifierMetrics(registry: Registry): NotifierMetrics {
  const registers = [registry];
  return {
    attempts: new Tally({
      name: 'triplock_webhook_attempts_total',
      help: 'Webhook attempts, by outcome.',
      label: 'outcome',
      values: { delivered: 0, refused: 0, unanswered: 0, unsendable: 0 },
      registers,
    }),
    attemptSeconds: new Durations({
      name: 'triplock_webhook_attempt_seconds',
      help: 'Duration of one attempt, including look-ups. failed: the database was unavailable.',
      buckets: usualBuckets,
      outcomes: ['delivered', 'refused', 'unanswered', 'unsendable', 'failed'],
      registers,
    }),
    givenUp: new Counter({
      name: 'triplock_webhooks_given_up_total',
      help: 'Deliveries that failed until their retries ran out: the partner was not notified.',
      registers,
    }),
    endpointsGone: new Counter({
      name: 'triplock_webhook_endpoints_gone_total',
      help: 'Endpoints disabled because their server answered 410 Gone.',
      registers,
    }),
    overtaken: new Counter({
      name: 'triplock_webhooks_overtaken_total',
      help: 'Attempts whose lease ended before they were recorded.',
      registers,
    }),
    reaped: new Tally({
      name: 'triplock_notifier_reaped_total',
      help: 'Rows removed by the reaper, from the inbox and from deliveries.',
      label: 'what',
      values: { inbox: 0, deliveries: 0 },
      registers,
    }),
    waiting: new Gauge({
      name: 'triplock_webhooks_waiting',
      help: 'Deliveries still to be made.',
      registers,
    }),
    oldestSeconds: new Gauge({
      name: 'triplock_webhooks_oldest_waiting_seconds',
      help: 'Age of the oldest delivery still to be made.',
      registers,
    }),
  };
}
