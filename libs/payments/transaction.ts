/** A transaction goes from `pending` to one of the final states, once. */
export type TransactionState = 'pending' | 'succeeded' | 'failed';

/** Why a transaction failed; `code` is stable, `message` is for people. */
export type Failure = { readonly code: string; readonly message: string };

/** How a transaction ended. */
export type Settlement = { state: 'succeeded' } | { state: 'failed'; failure: Failure };

/** Whether the state can still change. */
export function isFinal(state: TransactionState): state is 'succeeded' | 'failed' {
  return state !== 'pending';
}
