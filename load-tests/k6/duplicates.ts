// Shows guard 1 under load: 30 % of the payments are retried as they were, 5 % are sent twice at
// once, 10 % are retried long after their answer, or as many more or fewer of each as were asked
// for, and 1 % of the keys are used for another body. Each duplicate is counted when it is sent and
// again by what caught it.
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
    // Guard 2 would absorb all of them too, so a guard 1 that catches none has to be seen here.
    ...(settings.duplicatesPercent > 0 && {
      duplicates_sent: ['count>0'],
      duplicates_caught: ['count>0'],
    }),
    duplicates_passed: ['count<10'],
    other_bodies_refused: ['count>0'],
  },
};

/** Accepted by this virtual user, to be retried late. */
const toRetryLate: { accepted: Accepted; at: number }[] = [];
// Long enough for the webhook to be out, and short enough that a run has many.
const lateMs = Math.min(20_000, settings.seconds * 250);

/** The last lot of 100 that is retried at once, is sent twice at once, and is retried late. */
const repeatedUntil = Math.round((settings.duplicatesPercent * 30) / 45);
const twinsUntil = Math.round((settings.duplicatesPercent * 35) / 45);
const lateUntil = settings.duplicatesPercent;

export function payWithDuplicates(): void {
  const n = exec.scenario.iterationInTest;
  // The rarest comes first, so that it is also in a run of a few seconds.
  const lot = n % 100;
  const order = paymentOf(n);
  const areTwins = lot > repeatedUntil && lot <= twinsUntil;
  const accepted = areTwins ? payTwiceAtOnce(order) : pay(order);
  if (accepted !== undefined) {
    if (lot === 0) reuse(accepted);
    if (lot > 0 && lot <= repeatedUntil) repeat(accepted);
    if (lot > twinsUntil && lot <= lateUntil)
      toRetryLate.push({ accepted, at: Date.now() + lateMs });
  }
  if (toRetryLate.length > 0 && toRetryLate[0]!.at <= Date.now()) {
    repeat(toRetryLate.shift()!.accepted);
  }
}
