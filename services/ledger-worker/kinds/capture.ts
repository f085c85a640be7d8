import { nextAttempt, type CaptureOutcome, type CaptureRequest } from '@triplock/provider';
import type { WorkerAt } from '../worker.ts';
import { endAuthorization, type Closing } from './closing.ts';
import type { CarryOut } from './follow-up.ts';

/** Has the provider take so much of what it holds, and let go of the rest. */
export const capture: CarryOut = (worker, given) => endAuthorization(worker, given, capturing);

const capturing: Closing = {
  async ask(worker, { partnerId, key, money }, intent) {
    const caller = { kind: 'capture' as const, partnerId, key, attempt: 1 };
    const captured = await captureIntent(worker, { ...caller, ...intent, amount: money.amount });
    await worker.crashPoints.reached('worker.captured');
    return captured;
  },
  isDone: ({ money }, seen) => seen.outcome === 'succeeded' && seen.received === money.amount,
};

/**
 * Captures, and goes by the intent's own state when the answer is not known. Another attempt is
 * made only after the intent was seen authorised, and it is captured once whatever was sent.
 */
async function captureIntent(worker: WorkerAt, request: CaptureRequest): Promise<CaptureOutcome> {
  const answer = await worker.provider.captureIntent(request);
  if (answer.outcome !== 'unknown' || !answer.sent) return answer;
  const seen = await worker.provider.readIntent(request);
  // It was sent, whatever became of the read.
  if (seen.outcome === 'unknown') return answer;
  if (seen.outcome !== 'authorized') return seen;
  const attempt = nextAttempt(request.attempt, answer);
  return attempt === undefined ? answer : captureIntent(worker, { ...request, attempt });
}
