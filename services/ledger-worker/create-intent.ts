import type { CreateOutcome, IntentRequest, Provider } from '@triplock/provider';
import { nextAttempt } from './next-attempt.ts';

/**
 * Prepares a charge, past errors that the provider keeps. What such an attempt may have left behind
 * is an intent that is unknown here and so never confirmed: it charges nobody.
 */
export async function createIntent(
  provider: Pick<Provider, 'createIntent'>,
  request: IntentRequest,
): Promise<CreateOutcome> {
  const answer = await provider.createIntent(request);
  if (answer.outcome !== 'unknown') return answer;
  const attempt = nextAttempt(request.attempt, answer);
  return attempt === undefined ? answer : createIntent(provider, { ...request, attempt });
}
