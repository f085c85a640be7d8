// Shows how long a partner waits behind another one's backlog: while no worker runs `acme` pays as
// fast as it can, and then `globex` a few times. The runner starts the workers again and compares,
// hop by hop, when either was through (load/behind.ts).
import exec from 'k6/execution';
import { pay, paymentOf } from './partner/pay.ts';
import { clearAnswers, settings, usual } from './partner/scenario.ts';

export { handleSummary } from './partner/scenario.ts';

const { rate, seconds } = settings;

export const options = {
  ...usual,
  scenarios: {
    backlog: {
      executor: 'constant-arrival-rate',
      rate,
      duration: `${seconds}s`,
      // As many as one partner may have under way: what comes when all of them wait is not sent.
      preAllocatedVUs: 400,
      maxVUs: 400,
      gracefulStop: '60s',
      exec: 'payMuch',
    },
    behind: {
      executor: 'per-vu-iterations',
      vus: 1,
      iterations: 20,
      startTime: `${seconds + 2}s`,
      exec: 'payLittle',
    },
  },
  thresholds: {
    payments_unknown: clearAnswers.payments_unknown,
    payments_refused: clearAnswers.payments_refused,
  },
};

export function payMuch(): void {
  pay(paymentOf(exec.scenario.iterationInTest));
}

export function payLittle(): void {
  pay(paymentOf(rate * seconds + exec.scenario.iterationInTest, { partner: 'globex' }));
}
