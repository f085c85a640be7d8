import type { Way } from '@triplock/pipeline';

/** What the worker tells of a payment's way. */
export const way = {
  counters: { read: [['triplock_worker_records_total']] },
  gauges: {},
  hop: {
    from: 'kafka',
    guard: 'guard 2',
    does: 'posts once, charges once',
    unit: 'records read',
    rate: 'read',
    caught: 'caughtByLedger',
  },
} as const satisfies Way;
