// Shows the saga's compensation under load: each payment is followed by a refund of half of it
// right after its 202, before anybody can have posted it; one in ten then asks for more than is
// left, which is refused, or accepted and ends `failed`. Every refund stays behind its payment, and
// none exceeds it.
import exec from 'k6/execution';
import { pay, paymentOf, refund, refundOf, refundTooMuch, repeat } from './partner/pay.ts';
import { clearAnswers, settings, usersFor, usual } from './partner/scenario.ts';

export { handleSummary } from './partner/scenario.ts';

export const options = {
  ...usual,
  scenarios: {
    refunds: {
      executor: 'constant-arrival-rate',
      rate: settings.rate,
      duration: `${settings.seconds}s`,
      ...usersFor(settings.rate * 2),
      exec: 'payAndGiveBack',
    },
  },
  thresholds: { ...clearAnswers, refunds_accepted: ['count>0'], duplicates_altered: ['count==0'] },
};

export function payAndGiveBack(): void {
  const n = exec.scenario.iterationInTest;
  const order = paymentOf(n);
  const paid = pay(order);
  if (paid === undefined) return;
  const wish = { partner: order.partner, payment: paid.id };
  const half = refund(refundOf(`${n}-half`, { ...wish, amount: Math.ceil(order.amount / 2) }));
  if (half !== undefined && n % 5 === 0) repeat(half);
  if (n % 10 === 0) refundTooMuch(refundOf(`${n}-more`, { ...wish, amount: order.amount }));
}
