// Shows what the system does at a rate that it is given: payments arrive at that rate whether or
// not the earlier ones are answered (an open model), so a system that falls behind cannot slow its
// own load down. It rises to the rate first, as traffic does when it is sent to new processes, and
// that counts as well. `ramp` searches for its knee with this scenario, `soak` runs it for long.
import exec from 'k6/execution';
import { pay, paymentOf } from './partner/pay.ts';
import { clearAnswers, settings, usersFor, usual } from './partner/scenario.ts';

export { handleSummary } from './partner/scenario.ts';

const { rate, seconds } = settings;
const risingSeconds = Math.min(10, Math.ceil(seconds / 6));

export const options = {
  ...usual,
  scenarios: {
    rising: {
      executor: 'ramping-arrival-rate',
      startRate: 1,
      stages: [{ target: rate, duration: `${risingSeconds}s` }],
      ...usersFor(rate),
      exec: 'payOnce',
    },
    steady: {
      executor: 'constant-arrival-rate',
      startTime: `${risingSeconds}s`,
      rate,
      duration: `${seconds}s`,
      ...usersFor(rate),
      exec: 'payOnce',
    },
  },
  thresholds: { ...clearAnswers, accept_ms: ['p(99)<1000'] },
};

export function payOnce(): void {
  // Each of the two counts from nothing.
  const before = exec.scenario.name === 'steady' ? rate * risingSeconds : 0;
  pay(paymentOf(before + exec.scenario.iterationInTest));
}
