// Shows that the system is up and keeps its word at all: twenty payments one after the other, each
// retried, and each key tried with another body. Fast enough to be run before anything else.
import exec from 'k6/execution';
import { pay, paymentOf, repeat, reuse } from './partner/pay.ts';
import { usual } from './partner/scenario.ts';

export { handleSummary } from './partner/scenario.ts';

export const options = {
  ...usual,
  scenarios: {
    smoke: { executor: 'shared-iterations', vus: 1, iterations: 20, exec: 'payRetryReuse' },
  },
  thresholds: {
    payments_accepted: ['count==20'],
    duplicates_caught: ['count==20'],
    other_bodies_refused: ['count==20'],
    accept_ms: ['p(99)<3000'],
  },
};

export function payRetryReuse(): void {
  const accepted = pay(paymentOf(exec.scenario.iterationInTest));
  if (accepted === undefined) return;
  repeat(accepted);
  reuse(accepted);
}
