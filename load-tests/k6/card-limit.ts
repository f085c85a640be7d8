// Shows what more cards than a provider takes come to: `acme` pays a crowd of them within seconds,
// and meanwhile `globex` one a second. The runner limits the simulator of Stripe, and compares how
// long either waited (load/card-limit.ts).
import exec from 'k6/execution';
import { pay, paymentOf } from './partner/pay.ts';
import { clearAnswers, settings, usersFor, usual } from './partner/scenario.ts';

export { handleSummary } from './partner/scenario.ts';

const { rate, seconds } = settings;
const payment_method = 'pm_card_visa';

export const options = {
  ...usual,
  scenarios: {
    crowd: {
      executor: 'constant-arrival-rate',
      rate,
      duration: `${seconds}s`,
      ...usersFor(rate),
      exec: 'payMuch',
    },
    others: {
      executor: 'constant-arrival-rate',
      rate: 1,
      // So that the crowd is there when the first of them comes.
      startTime: '2s',
      duration: `${2 * seconds}s`,
      ...usersFor(1),
      exec: 'payLittle',
    },
  },
  thresholds: clearAnswers,
};

export function payMuch(): void {
  pay(paymentOf(exec.scenario.iterationInTest, { payment_method }));
}

export function payLittle(): void {
  const n = rate * seconds + exec.scenario.iterationInTest;
  pay(paymentOf(n, { partner: 'globex', payment_method }));
}
