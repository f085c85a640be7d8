import type { Payment, Refund } from '@triplock/payments';

/** A pending row that nobody has looked after in time, as it is now. */
export type DueTransaction =
  | { kind: 'payment'; payment: Payment; traceparent: string }
  | { kind: 'refund'; refund: Refund; traceparent: string };

/**
 * Takes up to `limit` pending transactions whose time has come, longest due first, so that no two
 * callers get the same: each is due again later, after a quarter of the time that it has been
 * pending (`leaseMs` at least, a minute at most). Whoever holds an older version writes nothing.
 */
export type TakeDue = (request: { limit: number; leaseMs: number }) => Promise<DueTransaction[]>;
