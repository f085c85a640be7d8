import { settings } from './settings.ts';

/** k6 calls it at the end of a run: everything it measured goes to the runner's file. */
export function handleSummary(data: unknown): Record<string, string> {
  return { [settings.summaryFile]: JSON.stringify(data) };
}

/** What every scenario asks of k6. */
export const usual = {
  summaryTrendStats: ['min', 'avg', 'med', 'p(90)', 'p(95)', 'p(99)', 'max'],
  // A key is in no tag, so that series do not grow with payments.
  systemTags: ['status', 'method', 'name', 'scenario', 'expected_response'],
};

/**
 * What holds in every open scenario: each key got a clear answer in the end, and the load was what
 * was asked for but for 1 % that k6 itself could not send in time.
 */
export const clearAnswers = {
  payments_unknown: ['count==0'],
  payments_refused: ['count==0'],
  refunds_unknown: ['count==0'],
  refunds_refused: ['count==0'],
  dropped_iterations: [`count<=${Math.ceil(settings.rate * settings.seconds * 0.01)}`],
};

/** Virtual users for an open model at a rate: each is held as long as one payment takes. */
export function usersFor(rate: number): { preAllocatedVUs: number; maxVUs: number } {
  // One that is made in the middle of a run comes too late for its payment, which is then dropped.
  return { preAllocatedVUs: Math.max(20, rate), maxVUs: Math.max(50, rate * 3) };
}
