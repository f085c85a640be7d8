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
