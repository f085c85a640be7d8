import type { Unknown } from '@triplock/provider';

/**
 * How many idempotency keys one pass uses up on errors that the provider keeps. Beyond that the
 * provider is in more than a moment's trouble: the transaction waits, and a later pass, which hears
 * the kept errors again, does no harm. Keys are forgotten after a day.
 */
const attemptsMax = 5;

/** The attempt after one whose answer is unknown, or none when another key would not help. */
export function nextAttempt(attempt: number, answer: Unknown): number | undefined {
  return answer.kept && attempt < attemptsMax ? attempt + 1 : undefined;
}
