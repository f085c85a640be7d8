import type { Unknown } from '@triplock/provider';

/** Far above what a bad hour of the provider uses up at one fresh key a pass. */
const attemptsMax = 100;

/**
 * The attempt after one whose answer is unknown, or none when another key would not help now. Only
 * an answer that is certainly kept is passed by, and an answer is known as kept when it comes a
 * second time: so a pass uses up one fresh key at most, and passes are seconds apart.
 */
export function nextAttempt(attempt: number, answer: Unknown): number | undefined {
  return answer.kept && attempt < attemptsMax ? attempt + 1 : undefined;
}
