import { transactionKinds } from '@triplock/payments';
import type { CounterSource, Way } from '@triplock/pipeline';

/** What the gateway tells of a payment's way. */
export const way = {
  counters: {
    accepted: transactionKinds.map((kind): CounterSource => [
      `triplock_gateway_${kind}s_total`,
      'accepted',
    ]),
  },
  gauges: { claimsCold: ['triplock_gateway_cold_ratio', 'largest'] },
  hop: {
    from: 'partners',
    guard: 'guard 1',
    does: 'claims each key',
    unit: 'accepted',
    rate: 'accepted',
    caught: 'caughtByClaims',
    cold: 'claimsCold',
  },
} as const satisfies Way;
