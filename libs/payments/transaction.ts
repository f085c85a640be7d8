/** A transaction goes from `pending` to one of the final states, once. */
export type TransactionState = 'pending' | 'succeeded' | 'failed';

/** Why a transaction failed; `code` is stable, `message` is for people. */
export type Failure = { readonly code: string; readonly message: string };

/** How a transaction ended. */
export type Settlement = { state: 'succeeded' } | { state: 'failed'; failure: Failure };

/** What asking for a settlement does to a transaction in a given state. */
export type Transition =
  | { outcome: 'settles'; state: 'succeeded' | 'failed' }
  | { outcome: 'already-final'; state: 'succeeded' | 'failed' };

/** What is final never changes: a second settlement, equal or not, changes nothing. */
export function transition(from: TransactionState, settlement: Settlement): Transition {
  if (from === 'pending') return { outcome: 'settles', state: settlement.state };
  return { outcome: 'already-final', state: from };
}

/** Whether the state can still change. */
export function isFinal(state: TransactionState): state is 'succeeded' | 'failed' {
  return state !== 'pending';
}
