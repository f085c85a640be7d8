import type { Watch } from '@triplock/pipeline';

/** How the settlement feed is shown to people. */
export const watch = {
  panels: {
    title: 'Settlement feed',
    duration: { of: 'events', metric: 'triplock_settlement_handle_seconds' },
    reaped: {
      metric: 'triplock_settlement_reaped_total',
      by: 'service',
      legend: 'settlement: inbox',
    },
  },
  counters: { settled: [['triplock_settlement_events_total', 'applied']] },
  gauges: {
    settlementInHand: ['triplock_settlement_events_in_hand', 'sum'],
    settlementOldest: ['triplock_settlement_events_oldest_seconds', 'largest'],
  },
  hop: {
    from: 'pubsub',
    guard: 'guard 3b',
    does: 'adds up the day',
    unit: 'applied',
    rate: 'settled',
    inHand: 'settlementInHand',
    oldest: 'settlementOldest',
  },
  manual: {
    needs: '`DATABASE_URL`, `PUBSUB_PROJECT_ID`',
    lookAt: '`INBOX_RETENTION_HOURS`, `SETTLEMENT_DAY_CLOSES_AFTER_MS`',
  },
  metrics: [
    ['triplock_settlement_reaped_total', '', 'Inbox rows removed by the reaper.'],
    [
      'triplock_settlement_open_day_over_seconds',
      '',
      'For how long the first day that is not closed has been over.',
    ],
    [
      'triplock_settlement_days_looked_at_seconds',
      '',
      'How long ago it was looked how far the days are complete.',
    ],
  ],
  crashWindows: {
    'settlement.received': ['nothing new', 'redelivered'],
    'settlement.committed': ['inbox row, line and batch', 'redelivered; the inbox knows it'],
  },
  most: { statements: 0.12, batches: 0.04, walBytes: 1_100 },
  trace: {
    layer: 'guard 3 settlement',
    says: 'Applied once by the settlement feed',
    rows: 'feedRows',
    receivedAt: 'feedReceivedAt',
    isPast: 'isPastFeed',
  },
} as const satisfies Watch;
