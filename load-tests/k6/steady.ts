// Shows what the system does at a rate that it is given: payments arrive at that rate whether or
// not the earlier ones are answered (an open model), so a system that falls behind cannot slow its
// own load down. `ramp` searches for its knee with this scenario, `soak` runs it for long.
import exec from 'k6/execution';
import { pay, paymentOf } from './partner/pay.ts';
import { settings } from './partner/settings.ts';
import { clearAnswers, usersFor, usual } from './partner/summary.ts';

export { handleSummary } from './partner/summary.ts';

export const options = {
  ...usual,
  scenarios: {
    steady: {
      executor: 'constant-arrival-rate',
      rate: settings.rate,
      duration: `${settings.seconds}s`,
      ...usersFor(settings.rate),
      exec: 'payOnce',
    },
  },
  thresholds: { ...clearAnswers, accept_ms: ['p(99)<1000'] },
};

export function payOnce(): void {
  pay(paymentOf(exec.scenario.iterationInTest));
}
