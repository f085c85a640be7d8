// Shows a burst of five times the rate and what is left of it: some may be told 503 or 429 and try
// again, nobody gets a wrong answer, and the lag of the later stages goes back to where it was.
import exec from 'k6/execution';
import { pay, paymentOf } from './partner/pay.ts';
import { clearAnswers, settings, usersFor, usual } from './partner/scenario.ts';

export { handleSummary } from './partner/scenario.ts';

const { rate, seconds } = settings;
const part = (share: number) => `${Math.max(1, Math.round(seconds * share))}s`;

export const options = {
  ...usual,
  scenarios: {
    spike: {
      executor: 'ramping-arrival-rate',
      startRate: rate,
      ...usersFor(rate * 5),
      stages: [
        { target: rate, duration: part(0.3) },
        { target: rate * 5, duration: part(0.02) },
        { target: rate * 5, duration: part(0.2) },
        { target: rate, duration: part(0.02) },
        { target: rate, duration: part(0.46) },
      ],
      exec: 'payOnce',
    },
  },
  thresholds: clearAnswers,
};

export function payOnce(): void {
  pay(paymentOf(exec.scenario.iterationInTest));
}
