/**
 * A transaction goes from `pending` to one of the final states, once. A payment that was authorised
 * first ends `captured` or `canceled`; until then it is pending, and shown as `authorized`.
 */
export type TransactionState = 'pending' | 'succeeded' | 'captured' | 'failed' | 'canceled';

/** The state of a payment as its partner sees it. */
export type PaymentStatus = TransactionState | 'authorized';

/** Why a transaction failed; `code` is stable, `message` is for people. */
export type Failure = { readonly code: string; readonly message: string };

/** How a transaction ended. */
export type Settlement =
  | { state: 'succeeded' }
  /** Of a payment that was authorised: so much of it, in minor units. */
  | { state: 'captured'; amount: bigint }
  | { state: 'failed' | 'canceled'; failure: Failure };

/** A state that never changes. */
export type FinalState = Exclude<TransactionState, 'pending'>;

/** Whether the state can still change. */
export function isFinal(state: TransactionState): state is FinalState {
  return state !== 'pending';
}
