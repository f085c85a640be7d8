import { endAuthorization, type Closing } from './closing.ts';
import type { CarryOut } from './follow-up.ts';

/** Has the provider let go of what it holds. */
export const cancellation: CarryOut = (worker, given) =>
  endAuthorization(worker, given, cancelling);

const cancelling: Closing = {
  async ask({ provider, crashPoints }, _cancellation, intent) {
    const ended = await provider.cancelIntent({ ...intent, because: 'requested_by_customer' });
    await crashPoints.reached('worker.cancelled');
    return ended;
  },
  isDone: (_cancellation, seen) =>
    seen.outcome === 'declined' && seen.failure.code === 'payment_canceled',
};
