import type { Way } from '@triplock/pipeline';

/** What the gateway tells of a payment's way. */
export const way = {
  counters: {
    accepted: [
      ['triplock_gateway_payments_total', 'accepted'],
      ['triplock_gateway_refunds_total', 'accepted'],
      ['triplock_gateway_captures_total', 'accepted'],
      ['triplock_gateway_cancellations_total', 'accepted'],
    ],
  },
  gauges: {},
  hop: {
    from: 'partners',
    guard: 'guard 1',
    does: 'claims each key',
    unit: 'accepted',
    rate: 'accepted',
    caught: 'caughtByClaims',
  },
} as const satisfies Way;
