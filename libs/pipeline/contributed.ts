import type { CounterSource, GaugeSource, Rules, Watch } from './contribution.ts';

/*
 * What the services bring to be watched and audited, as one: each part is written in
 * `services/NAME/watch/watch.ts` or `services/NAME/audit/rules.ts`, and assembled here by
 * `npm run generate`, because nobody imports a service.
 */

/** Figures that are counted, by their names. */
export const countersOfConsumers = {
  // --- counters, by npm run generate
  notified: [['triplock_notifier_events_total', 'applied']],
  delivered: [['triplock_webhook_attempts_total', 'delivered']],
  settled: [['triplock_settlement_events_total', 'applied']],
  // --- end of counters
} as const satisfies Readonly<Record<string, readonly CounterSource[]>>;

/** Figures that are as they are now, by their names. */
export const gaugesOfConsumers = {
  // --- gauges, by npm run generate
  notifierInHand: ['triplock_notifier_events_in_hand', 'sum'],
  notifierOldest: ['triplock_notifier_events_oldest_seconds', 'largest'],
  webhooksWaiting: ['triplock_webhooks_waiting', 'largest'],
  webhooksOldest: ['triplock_webhooks_oldest_waiting_seconds', 'largest'],
  webhooksParked: ['triplock_webhooks_parked', 'largest'],
  settlementInHand: ['triplock_settlement_events_in_hand', 'sum'],
  settlementOldest: ['triplock_settlement_events_oldest_seconds', 'largest'],
  // --- end of gauges
} as const satisfies Readonly<Record<string, GaugeSource>>;

type Consumer = Pick<Watch, 'hop' | 'trace'> & { name: string; schema: string };

/** The consumers of events that have an inbox, in the order of the list of services. */
export const consumers = [
  // --- consumers, by npm run generate
  {
    name: 'partner-notifier',
    schema: 'notifier',
    hop: {
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
    hop: {
      guard: 'guard 3b',
      does: 'adds up the day',
      unit: 'applied',
      rate: 'settled',
      inHand: 'settlementInHand',
      oldest: 'settlementOldest',
    },
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
  'delivery-differs-from-attempts': { holds: 'always' },
  'settlement-missing': { holds: 'in the end' },
  'settlement-differs-from-ledger': { holds: 'always' },
  // --- end of rules
} as const satisfies Rules;
