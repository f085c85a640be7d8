import type { ConfirmRequest, IntentOutcome, Provider } from '@triplock/provider';
import { nextAttempt } from './next-attempt.ts';

/**
 * Confirms a stored intent and goes by the intent's own state when the answer is not known. Another
 * attempt is made only after the intent was seen unconfirmed, and an intent succeeds once whatever
 * was sent, so nobody is charged twice, also when an attempt comes to life late.
 */
export async function confirmIntent(
  provider: Pick<Provider, 'confirmIntent' | 'readIntent'>,
  request: ConfirmRequest,
): Promise<IntentOutcome> {
  const answer = await provider.confirmIntent(request);
  if (answer.outcome !== 'unknown' || !answer.sent) return answer;
  const seen = await provider.readIntent(request);
  // It was sent, whatever the read says of itself.
  if (seen.outcome === 'unknown') return answer;
  if (seen.outcome !== 'unconfirmed') return seen;
  const attempt = nextAttempt(request.attempt, answer);
  return attempt === undefined ? answer : confirmIntent(provider, { ...request, attempt });
}
