import { isFinal, type TransactionState } from '@triplock/payments';
import type { Unknown } from '@triplock/provider';
import type { AttemptWord } from './metrics.ts';

/** What one attempt to charge a payment, or to give a refund back, came to. */
export type AttemptOutcome =
  /** This call made it final. */
  | { outcome: 'settled'; state: 'succeeded' | 'failed' }
  /** The customer or the provider has yet to decide; the row is looked after when it is due. */
  | { outcome: 'waiting' }
  /** Nobody knows; the row is looked after when it is due, or by whoever tries again before. */
  | { outcome: 'unknown'; because: Unknown }
  /** Another worker is at it, or has finished it. */
  | { outcome: 'taken-over'; state: TransactionState };

/** What a batch has to know of a known outcome; `ended` says what the two ends are called. */
export function fateOfAttempt<Ended extends string>(
  outcome: Exclude<AttemptOutcome, { outcome: 'unknown' }>,
  ended: { succeeded: Ended; failed: Ended },
): Ended | 'handed-over' | 'already-recorded' {
  switch (outcome.outcome) {
    case 'settled':
      return ended[outcome.state];
    case 'waiting':
      return 'handed-over';
    case 'taken-over':
      return isFinal(outcome.state) ? 'already-recorded' : 'handed-over';
    default:
      return outcome satisfies never;
  }
}

/** What the outcome is counted as. */
export function attemptWord(outcome: AttemptOutcome): AttemptWord {
  return outcome.outcome === 'settled' ? outcome.state : outcome.outcome;
}
