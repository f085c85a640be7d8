import { Counter, Durations, Gauge, Tally, usualBuckets, type Registry } from '@triplock/runtime';
import type { AttemptOutcome } from './webhook-client.ts';

/** What the notifier counts, beside its inbox. */
export type NotifierMetrics = {
  /** Attempts by what they came to. */
  attempts: Tally<AttemptOutcome['outcome']>;
  attemptSeconds: Durations<AttemptOutcome['outcome'] | 'failed'>;
  /** Deliveries without success to the last attempt: each needs a person. */
  givenUp: Counter;
  /** Endpoints that were disabled by a 410 Gone. */
  endpointsGone: Counter;
  /** Attempts that were answered after their lease had ended. */
  overtaken: Counter;
  /** Inbox rows and webhooks that were removed by age. */
  reaped: Tally<'inbox' | 'deliveries'>;
  waiting: Gauge;
  oldestSeconds: Gauge;
  /** Deliveries whose partner has no open endpoint: nobody tries them. */
  parked: Gauge;
  oldestParkedSeconds: Gauge;
};

/** Registers the notifier's metrics. */
export function notifierMetrics(registry: Registry): NotifierMetrics {
  const registers = [registry];
  return {
    attempts: new Tally({
      name: 'triplock_webhook_attempts_total',
      help: 'Webhook attempts, by outcome. not-sent: there was no open endpoint any more.',
      label: 'outcome',
      values: { delivered: 0, refused: 0, unanswered: 0, unsendable: 0, 'not-sent': 0 },
      registers,
    }),
    attemptSeconds: new Durations({
      name: 'triplock_webhook_attempt_seconds',
      help: 'Duration of one attempt, including look-ups. failed: the database was unavailable.',
      buckets: usualBuckets,
      outcomes: ['delivered', 'refused', 'unanswered', 'unsendable', 'not-sent', 'failed'],
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
      help: 'Deliveries still to be made to an open endpoint. At 1000 of a partner there may be more.',
      registers,
    }),
    oldestSeconds: new Gauge({
      name: 'triplock_webhooks_oldest_waiting_seconds',
      help: 'Age of the oldest delivery still to be made to an open endpoint.',
      registers,
    }),
    parked: new Gauge({
      name: 'triplock_webhooks_parked',
      help: 'Deliveries parked for want of an open endpoint. At 1000 of a partner there may be more.',
      registers,
    }),
    oldestParkedSeconds: new Gauge({
      name: 'triplock_webhooks_oldest_parked_seconds',
      help: 'How long the oldest parked delivery has waited for an endpoint.',
      registers,
    }),
  };
}
