// Shows guard 2 with a provider that takes its time: card payments, some of which are declined. The
// runner has the simulator of Stripe answer as slowly as a real provider does. Cards are accepted
// as fast as book transfers; what they wait for is the ledger worker's bounded number of charges.
import exec from 'k6/execution';
import { pay, paymentOf } from './partner/pay.ts';
import { clearAnswers, settings, usersFor, usual } from './partner/scenario.ts';

export { handleSummary } from './partner/scenario.ts';

export const options = {
  ...usual,
  scenarios: {
    cards: {
      executor: 'constant-arrival-rate',
      rate: settings.rate,
      duration: `${settings.seconds}s`,
      ...usersFor(settings.rate),
      exec: 'payByCard',
    },
  },
  thresholds: { ...clearAnswers, accept_ms: ['p(99)<1000'] },
};

/** What becomes of twenty cards. */
const declined = ['pm_card_visa_chargeDeclined', 'pm_card_visa_chargeDeclinedInsufficientFunds'];

export function payByCard(): void {
  const n = exec.scenario.iterationInTest;
  const payment_method = declined[n % 20] ?? 'pm_card_visa';
  pay(paymentOf(n, { payment_method }));
}
