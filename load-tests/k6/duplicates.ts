// Shows guard 1 under load: 30 % of the payments are retried as they were, 5 % are sent twice at
// once, 1 % of the keys are used for another body, and 10 % are retried long after their answer.
// Each duplicate is counted when it is sent and again by what caught it.
import exec from 'k6/execution';
import { pay, paymentOf, payTwiceAtOnce, repeat, reuse, type Accepted } from './partner/pay.ts';
import { clearAnswers, settings, usersFor, usual } from './partner/scenario.ts';

export { handleSummary } from './partner/scenario.ts';

export const options = {
  ...usual,
  scenarios: {
    duplicates: {
      executor: 'constant-arrival-rate',
      rate: settings.rate,
      duration: `${settings.seconds}s`,
      ...usersFor(settings.rate),
      exec: 'payWithDuplicates',
    },
  },
  thresholds: {
    ...clearAnswers,
    duplicates_altered: ['count==0'],
    duplicates_sent: ['count>0'],
    // Guard 2 would absorb all of them too, so a guard 1 that catches none has to be seen here.
    duplicates_caught: ['count>0'],
    duplicates_passed: ['count<10'],
    other_bodies_refused: ['count>0'],
  },
};

/** Accepted by this virtual user, to be retried late. */
const toRetryLate: { accepted: Accepted; at: number }[] = [];
// Long enough for the webhook to be out, and short enough that a run has many.
const lateMs = Math.min(20_000, settings.seconds * 250);

export function payWithDuplicates(): void {
  const n = exec.scenario.iterationInTest;
  // The rarest comes first, so that it is also in a run of a few seconds.
  const lot = n % 100;
  const order = paymentOf(n);
  const accepted = lot > 30 && lot <= 35 ? payTwiceAtOnce(order) : pay(order);
  if (accepted !== undefined) {
    if (lot === 0) reuse(accepted);
    if (lot > 0 && lot <= 30) repeat(accepted);
    if (lot > 35 && lot <= 45) toRetryLate.push({ accepted, at: Date.now() + lateMs });
  }
  if (toRetryLate.length > 0 && toRetryLate[0]!.at <= Date.now()) {
    repeat(toRetryLate.shift()!.accepted);
  }
}
