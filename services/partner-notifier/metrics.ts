import { Counter, Durations, Gauge, Tally, usualBuckets, type Registry } from '@triplock/runtime';
import type { AttemptOutcome, EndpointAnswer } from './webhook-client.ts';

/** What the notifier counts, beside its inbox. */
export type NotifierMetrics = {
  /** Attempts by what they came to. */
  attempts: Tally<AttemptOutcome['outcome']>;
  attemptSeconds: Durations<AttemptOutcome['outcome'] | 'failed'>;
  /** Deliveries without success to the last attempt: each needs a person. */
  givenUp: Counter;
  /** Endpoints that were disabled by a 410 Gone. */
  endpointsGone: Counter;
  /** Endpoints that were disabled because they took nothing for WEBHOOK_DISABLE_AFTER_HOURS. */
  endpointsFailed: Counter;
  /** Attempts that were answered after their lease had ended. */
  overtaken: Counter;
  /** Inbox rows, webhooks and what settings left behind that were removed by age. */
  reaped: Tally<'inbox' | 'deliveries' | 'settings'>;
  waiting: Gauge;
  oldestSeconds: Gauge;
  /** Deliveries whose partner has no open endpoint: nobody tries them. */
  parked: Gauge;
  oldestParkedSeconds: Gauge;
  /** Partners, hosts and slowed endpoints that have spent their rate: their webhooks wait. */
  ratesSpent: Gauge<'of'>;
  /** Questions to endpoints whether they want webhooks, by what they came to. */
  verifications: Tally<EndpointAnswer['outcome']>;
};

/** Registers the notifier's metrics. */
export function notifierMetrics(registry: Registry): NotifierMetrics {
  const registers = [registry];
  const counter = (name: string, help: string) => new Counter({ name, help, registers });
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers });
  return {
    attempts: new Tally({
      name: 'triplock_webhook_attempts_total',
      help: 'Webhook attempts, by outcome. not-sent: no open endpoint, or a lacking key.',
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
    givenUp: counter(
      'triplock_webhooks_given_up_total',
      'Deliveries that failed until their retries ran out: the partner was not notified.',
    ),
    endpointsGone: counter(
      'triplock_webhook_endpoints_gone_total',
      'Endpoints disabled because their server answered 410 Gone.',
    ),
    endpointsFailed: counter(
      'triplock_webhook_endpoints_failed_total',
      'Endpoints disabled because nothing was taken there for days.',
    ),
    overtaken: counter(
      'triplock_webhooks_overtaken_total',
      'Attempts whose lease ended before they were recorded.',
    ),
    reaped: new Tally({
      name: 'triplock_notifier_reaped_total',
      help: 'Rows removed by the reaper, from the inbox, from deliveries, and from what settings left behind.',
      label: 'what',
      values: { inbox: 0, deliveries: 0, settings: 0 },
      registers,
    }),
    waiting: gauge(
      'triplock_webhooks_waiting',
      'Deliveries still to be made to an open endpoint. At 1000 of an endpoint there may be more.',
    ),
    oldestSeconds: gauge(
      'triplock_webhooks_oldest_waiting_seconds',
      'Age of the oldest delivery still to be made to an open endpoint.',
    ),
    parked: gauge(
      'triplock_webhooks_parked',
      'Deliveries parked for want of an open endpoint. At 1000 of an endpoint there may be more.',
    ),
    oldestParkedSeconds: gauge(
      'triplock_webhooks_oldest_parked_seconds',
      'How long the oldest parked delivery has waited for an endpoint.',
    ),
    ratesSpent: new Gauge({
      name: 'triplock_webhook_rates_spent',
      help: 'Partners, hosts and slowed endpoints at their rate: their webhooks wait, and nobody else’s.',
      labelNames: ['of'],
      registers,
    }),
    verifications: new Tally({
      name: 'triplock_webhook_verifications_total',
      help: 'Questions to endpoints whether they want webhooks, by outcome. Only echoed opens one.',
      label: 'outcome',
      values: { echoed: 0, 'not-echoed': 0, refused: 0, unanswered: 0, unsendable: 0 },
      registers,
    }),
  };
}
