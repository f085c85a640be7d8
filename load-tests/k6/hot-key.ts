// Shows one ordering key that gets all the load: refunds of a single payment, so one partition of
// the accepted topic, one row that they all reserve on, one bucket of the outbox, and one sequence
// that every consumer applies without a gap. What is slow here is slow by design; nothing is out of
// order.
import { fail } from 'k6';
import exec from 'k6/execution';
import { pay, paymentOf, refund, refundOf, stateOf } from './partner/pay.ts';
import { clearAnswers, settings, usersFor, usual } from './partner/scenario.ts';

export { handleSummary } from './partner/scenario.ts';

export const options = {
  ...usual,
  scenarios: {
    'hot-key': {
      executor: 'constant-arrival-rate',
      rate: settings.rate,
      duration: `${settings.seconds}s`,
      ...usersFor(settings.rate),
      exec: 'giveBackALittle',
    },
  },
  thresholds: { ...clearAnswers, refunds_accepted: ['count>0'] },
};

export function setup(): { payment: string } {
  const paid = pay(paymentOf(0, { amount: 1_000_000 * Math.ceil(settings.rate) }));
  if (paid === undefined) fail('the payment to give back was not accepted');
  const state = stateOf('acme', paid.id);
  if (state !== 'succeeded') fail(`the payment to give back is ${state}`);
  return { payment: paid.id };
}

export function giveBackALittle({ payment }: { payment: string }): void {
  const n = exec.scenario.iterationInTest;
  refund(refundOf(`${n}`, { partner: 'acme', payment, amount: 1 + (n % 9) }));
}
