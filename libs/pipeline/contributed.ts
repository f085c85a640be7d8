import type { CounterSource, GaugeSource, Hop, Rules, Watch } from './contribution.ts';

/*
 * What the services bring to be watched and audited, as one: each part is written in
 * `services/NAME/watch/` or `services/NAME/audit/rules.ts`, and assembled here by
 * `npm run generate`, because nobody imports a service.
 */

/** Figures that are counted, by their names. */
export const countersOfServices = {
  // --- counters, by npm run generate
  accepted: [
    ['triplock_gateway_payments_total', 'accepted'],
    ['triplock_gateway_refunds_total', 'accepted'],
    ['triplock_gateway_captures_total', 'accepted'],
    ['triplock_gateway_cancellations_total', 'accepted'],
  ],
  read: [['triplock_worker_records_total']],
  published: [['triplock_dispatcher_events_total', 'published']],
  notified: [['triplock_notifier_events_total', 'applied']],
  delivered: [['triplock_webhook_attempts_total', 'delivered']],
  settled: [['triplock_settlement_events_total', 'applied']],
  witnessed: [['triplock_auditor_events_total']],
  // --- end of counters
} as const satisfies Readonly<Record<string, readonly CounterSource[]>>;

/** Figures that are as they are now, by their names. */
export const gaugesOfServices = {
  // --- gauges, by npm run generate
  claimsCold: ['triplock_gateway_cold_ratio', 'largest'],
  outboxPending: ['triplock_outbox_pending_rows', 'largest'],
  outboxOldest: ['triplock_outbox_oldest_seconds', 'largest'],
  outboxHeld: ['triplock_outbox_held_rows', 'largest'],
  notifierInHand: ['triplock_notifier_events_in_hand', 'sum'],
  notifierOldest: ['triplock_notifier_events_oldest_seconds', 'largest'],
  webhooksWaiting: ['triplock_webhooks_waiting', 'largest'],
  webhooksOldest: ['triplock_webhooks_oldest_waiting_seconds', 'largest'],
  webhooksParked: ['triplock_webhooks_parked', 'largest'],
  settlementInHand: ['triplock_settlement_events_in_hand', 'sum'],
  settlementOldest: ['triplock_settlement_events_oldest_seconds', 'largest'],
  unread: ['triplock_accepted_unread_records', 'largest'],
  unreadOldest: ['triplock_accepted_oldest_unread_seconds', 'largest'],
  unreadLooked: ['triplock_accepted_unread_timestamp_seconds', 'largest'],
  auditorInHand: ['triplock_auditor_events_in_hand', 'sum'],
  auditorOldest: ['triplock_auditor_events_oldest_seconds', 'largest'],
  auditDrift: ['triplock_audit_drift', 'largest'],
  auditEnded: ['triplock_audit_last_timestamp_seconds', 'largest'],
  // --- end of gauges
} as const satisfies Readonly<Record<string, GaugeSource>>;

/** The services on a payment's way, in the order of their list. */
export const hops = [
  // --- hops, by npm run generate
  {
    name: 'ingest-gateway',
    from: 'partners',
    guard: 'guard 1',
    does: 'claims each key',
    unit: 'accepted',
    rate: 'accepted',
    caught: 'caughtByClaims',
    cold: 'claimsCold',
  },
  {
    name: 'ledger-worker',
    from: 'kafka',
    guard: 'guard 2',
    does: 'posts once, charges once',
    unit: 'records read',
    rate: 'read',
    caught: 'caughtByLedger',
  },
  {
    name: 'outbox-dispatcher',
    from: 'outbox',
    guard: 'guard 3a',
    does: 'publishes, then marks',
    unit: 'published',
    rate: 'published',
  },
  {
    name: 'partner-notifier',
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
  {
    name: 'settlement-feed',
    from: 'pubsub',
    guard: 'guard 3b',
    does: 'adds up the day',
    unit: 'applied',
    rate: 'settled',
    inHand: 'settlementInHand',
    oldest: 'settlementOldest',
  },
  {
    name: 'auditor',
    from: 'pubsub',
    guard: 'audit',
    does: 'reads every layer',
    unit: 'events seen',
    rate: 'witnessed',
    inHand: 'auditorInHand',
    oldest: 'auditorOldest',
  },
  // --- end of hops
] as const satisfies readonly (Hop & { name: string })[];

type Consumer = Pick<Watch, 'trace'> & { name: string; schema: string };

/** The consumers of events that have an inbox, in the order of the list of services. */
export const consumers = [
  // --- consumers, by npm run generate
  {
    name: 'partner-notifier',
    schema: 'notifier',
    trace: {
      layer: 'guard 3 inbox',
      says: 'Applied once by the partner-notifier',
      rows: 'inboxRows',
      receivedAt: 'receivedAt',
      isPast: 'isPastNotifier',
    },
  },
  {
    name: 'settlement-feed',
    schema: 'settlement',
    trace: {
      layer: 'guard 3 settlement',
      says: 'Applied once by the settlement feed',
      rows: 'feedRows',
      receivedAt: 'feedReceivedAt',
      isPast: 'isPastFeed',
    },
  },
  // --- end of consumers
] as const satisfies readonly Consumer[];

/** When the checks of what one service did must find nothing. */
export const rulesOfServices = {
  // --- rules, by npm run generate
  'inbox-missing': { holds: 'in the end' },
  'delivery-waiting': { holds: 'in the end' },
  'delivery-refused': { holds: 'once others acted', waitsFor: 'endpoint' },
  'delivery-parked': { holds: 'once others acted', waitsFor: 'endpoint' },
  'delivery-given-up': { holds: 'once others acted', waitsFor: 'endpoint' },
  'reaped-differs-from-published': { holds: 'in the end', whole: true },
  'delivery-differs-from-inbox': { holds: 'always' },
  'delivery-differs-from-endpoints': { holds: 'always' },
  'delivery-tells-otherwise': { holds: 'always' },
  'feed-out-of-order': { holds: 'always' },
  'delivery-differs-from-attempts': { holds: 'always' },
  'settlement-missing': { holds: 'in the end' },
  'settlement-differs-from-ledger': { holds: 'always' },
  'settlement-differs-from-lines': { holds: 'always' },
  // --- end of rules
} as const satisfies Rules;
