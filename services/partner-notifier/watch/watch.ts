import type { Watch } from '@triplock/pipeline';

/** How the notifier and its webhooks are shown to people. */
export const watch = {
  panels: {
    title: 'Notifier',
    duration: { of: 'webhook attempts', metric: 'triplock_webhook_attempt_seconds' },
    reaped: { metric: 'triplock_notifier_reaped_total', by: 'what', legend: 'notifier: {{what}}' },
    stages: [
      {
        title: '4. Published, not admitted',
        where: 'in hand at the notifier',
        count: 'triplock_notifier_events_in_hand',
        age: 'triplock_notifier_events_oldest_seconds',
        charted: {
          as: '4. published',
          waits: 'published, not admitted',
          passes: 'triplock_notifier_events_total{outcome="applied"}',
          passed: 'admitted',
        },
      },
      {
        title: '5. Admitted, not delivered',
        where: 'for the partner’s server',
        count: 'triplock_webhooks_waiting',
        age: 'triplock_webhooks_oldest_waiting_seconds',
        charted: {
          as: '5. admitted',
          waits: 'admitted, not delivered',
          passes: 'triplock_webhook_attempts_total{outcome="delivered"}',
          passed: 'delivered',
        },
      },
      {
        title: '5b. Parked',
        where: 'for their partner to set an endpoint',
        count: 'triplock_webhooks_parked',
        age: 'triplock_webhooks_oldest_parked_seconds',
      },
    ],
    numbers: [
      {
        title: 'Webhooks given up',
        description:
          'Deliveries that failed until their retries ran out, since the notifiers started.',
        unit: 'short',
        shows: [{ sumOf: 'triplock_webhooks_given_up_total', as: 'webhooks' }],
      },
      {
        title: 'Endpoints gone',
        description:
          'Endpoints disabled because their server answered 410 Gone, since the notifiers started.',
        unit: 'short',
        shows: [{ sumOf: 'triplock_webhook_endpoints_gone_total', as: 'endpoints' }],
      },
      {
        title: 'Endpoints failed',
        description:
          'Endpoints disabled because nothing was taken there for days, since the notifiers started.',
        unit: 'short',
        shows: [{ sumOf: 'triplock_webhook_endpoints_failed_total', as: 'endpoints' }],
      },
    ],
    row: {
      title: 'Webhooks',
      panels: [
        {
          title: 'Attempts',
          description: 'By outcome. unanswered: the webhook may have arrived all the same.',
          unit: 'reqps',
          shows: [{ rateOf: 'triplock_webhook_attempts_total', by: 'outcome' }],
        },
        {
          title: 'Time of an attempt',
          description: 'Look-ups, connection, request and response head.',
          unit: 's',
          shows: [{ timesOf: 'triplock_webhook_attempt_seconds', by: 'outcome' }],
        },
        {
          title: 'Webhooks waiting',
          description:
            'Deliveries still to be made, including those between two attempts. parked: for want of an endpoint.',
          unit: 'short',
          shows: [
            { greatestOf: 'triplock_webhooks_waiting', as: 'webhooks' },
            { greatestOf: 'triplock_webhooks_parked', as: 'parked' },
          ],
        },
        {
          title: 'Oldest webhook waiting',
          description: 'It grows while a partner’s server is down, up to a day.',
          unit: 's',
          shows: [
            { greatestOf: 'triplock_webhooks_oldest_waiting_seconds', as: 'oldest' },
            { greatestOf: 'triplock_webhooks_oldest_parked_seconds', as: 'parked' },
          ],
        },
        {
          title: 'Overtaken',
          description:
            'Attempts that outlived their lease: another sender had taken over the delivery.',
          unit: 'reqps',
          shows: [{ rateOf: 'triplock_webhooks_overtaken_total', by: 'instance' }],
        },
      ],
    },
  },
  counters: {
    notified: [['triplock_notifier_events_total', 'applied']],
    delivered: [['triplock_webhook_attempts_total', 'delivered']],
  },
  gauges: {
    notifierInHand: ['triplock_notifier_events_in_hand', 'sum'],
    notifierOldest: ['triplock_notifier_events_oldest_seconds', 'largest'],
    webhooksWaiting: ['triplock_webhooks_waiting', 'largest'],
    webhooksOldest: ['triplock_webhooks_oldest_waiting_seconds', 'largest'],
    webhooksParked: ['triplock_webhooks_parked', 'largest'],
  },
  hop: {
    from: 'pubsub',
    guard: 'guard 3b',
    does: 'notifies partners',
    unit: 'applied',
    rate: 'notified',
    caught: 'caughtByInbox',
    inHand: 'notifierInHand',
    oldest: 'notifierOldest',
    beneath: {
      says: 'webhooks → partner',
      rate: 'delivered',
      waiting: 'webhooksWaiting',
      oldest: 'webhooksOldest',
      parked: 'webhooksParked',
    },
  },
  manual: {
    needs: '`DATABASE_URL`, `PUBSUB_PROJECT_ID`, `WEBHOOK_KEYS`',
    lookAt:
      '`INBOX_RETENTION_HOURS`, `DELIVERIES_RETENTION_HOURS`, `UNDELIVERED_RETENTION_HOURS`, `WEBHOOK_GIVE_UP_AFTER_MS`, `WEBHOOK_DISABLE_AFTER_HOURS`',
  },
  metrics: [
    [
      'triplock_webhook_attempts_total',
      'outcome',
      'Webhook attempts, by outcome. not-sent: no open endpoint, or a lacking key.',
    ],
    [
      'triplock_webhook_attempt_seconds',
      'outcome',
      'Duration of one attempt, including look-ups. failed: the database was unavailable.',
    ],
    [
      'triplock_webhooks_given_up_total',
      '',
      'Deliveries that failed until their retries ran out: the partner was not notified.',
    ],
    [
      'triplock_webhook_endpoints_gone_total',
      '',
      'Endpoints disabled because their server answered 410 Gone.',
    ],
    [
      'triplock_webhook_endpoints_failed_total',
      '',
      'Endpoints disabled because nothing was taken there for days.',
    ],
    [
      'triplock_webhook_verifications_total',
      'outcome',
      'Questions to endpoints whether they want webhooks, by outcome. Only echoed opens one.',
    ],
    [
      'triplock_webhook_rates_spent',
      'of',
      'Partners, hosts and slowed endpoints at their rate: their webhooks wait, and nobody else’s.',
    ],
    [
      'triplock_webhooks_overtaken_total',
      '',
      'Attempts whose lease ended before they were recorded.',
    ],
    [
      'triplock_notifier_reaped_total',
      'what',
      'Rows removed by the reaper, from the inbox, from deliveries, and from what settings left behind.',
    ],
    [
      'triplock_webhooks_waiting',
      '',
      'Deliveries still to be made to an open endpoint. At 1000 of an endpoint there may be more.',
    ],
    [
      'triplock_webhooks_oldest_waiting_seconds',
      '',
      'Age of the oldest delivery still to be made to an open endpoint.',
    ],
    [
      'triplock_webhooks_parked',
      '',
      'Deliveries parked for want of an open endpoint. At 1000 of an endpoint there may be more.',
    ],
    [
      'triplock_webhooks_oldest_parked_seconds',
      '',
      'How long the oldest parked delivery has waited for an endpoint.',
    ],
  ],
  crashWindows: {
    'notifier.received': ['nothing new', 'redelivered'],
    'notifier.committed': [
      'inbox row, delivery row, maybe leased',
      'redelivered; what is leased is sent after the lease',
    ],
    'webhook.leased': ['a lease, longer than one attempt', 'any notifier takes it after the lease'],
    'webhook.answered': ['what the partner did', 'sent again under the same webhook-id'],
    'webhook.recorded': ['all of it', 'nothing, or the next attempt when due'],
  },
  most: { statements: 0.3, batches: 0.06, walBytes: 4_800 },
  trace: {
    layer: 'guard 3 inbox',
    says: 'Applied once by the partner-notifier',
    rows: 'inboxRows',
    receivedAt: 'receivedAt',
    isPast: 'isPastNotifier',
  },
} as const satisfies Watch;
