// Shows what becomes of payments whose partners ask once: whoever is refused before anything was
// done goes away, so the load is what it is however the system fares. One in twenty is by card. The
// runner sends it at one rate after the other, or beside a part that stands still, and compares
// what the gateways measured themselves (load/phases.ts).
import exec from 'k6/execution';
import { payImpatiently, paymentOf } from './partner/pay.ts';
import { settings, usual } from './partner/scenario.ts';

export { handleSummary } from './partner/scenario.ts';

// As many as one partner may have under way, so that k6 has no part in what is refused. What comes
// when all of them wait is not sent.
const users = Math.min(400, Math.max(20, settings.rate));

export const options = {
  ...usual,
  scenarios: {
    once: {
      executor: 'constant-arrival-rate',
      rate: settings.rate,
      duration: `${settings.seconds}s`,
      preAllocatedVUs: users,
      maxVUs: users,
      gracefulStop: '15s',
      exec: 'payOnce',
    },
  },
  thresholds: { payments_refused: ['count==0'] },
};

export function payOnce(): void {
  const n = exec.scenario.iterationInTest;
  payImpatiently([paymentOf(n, n % 20 === 0 ? { payment_method: 'pm_card_visa' } : {})]);
}
