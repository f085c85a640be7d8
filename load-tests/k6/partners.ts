// Shows that a noisy partner pays for its own noise: `acme` sends four times what its rate limit
// allows, in bodies that are as long as they may be, `globex` a few ordinary payments a second.
// acme is told 429 beyond its limit and gets what the limit allows; globex is never told so. The
// runner starts a system with a low limit for it.
import exec from 'k6/execution';
import { pay, payImpatiently, paymentOf } from './partner/pay.ts';
import { settings, usersFor, usual } from './partner/scenario.ts';

export { handleSummary } from './partner/scenario.ts';

const { rate: limit, seconds } = settings;
const quietRate = Math.max(1, Math.round(limit / 20));
const open = { executor: 'constant-arrival-rate', duration: `${seconds}s` };

export const options = {
  ...usual,
  scenarios: {
    noisy: {
      ...open,
      ...usersFor(limit * 4),
      rate: limit * 4,
      exec: 'payLoudly',
      tags: { partner: 'acme' },
    },
    quiet: {
      ...open,
      ...usersFor(quietRate),
      rate: quietRate,
      exec: 'payQuietly',
      tags: { partner: 'globex' },
    },
  },
  thresholds: {
    payments_unknown: ['count==0'],
    payments_refused: ['count==0'],
    'answers_limited{partner:globex}': ['count==0'],
    'accept_ms{partner:globex}': ['p(99)<1000'],
    'answers_limited{partner:acme}': ['count>0'],
    // Above it by the burst of one second, below it by what a machine under load does not get sent.
    'payments_accepted{partner:acme}': [
      `count<=${limit * (seconds + 2)}`,
      `count>=${Math.floor(limit * seconds * 0.8)}`,
    ],
  },
};

// 45 KB of UTF-8: every character takes four bytes.
const long = (characters: number) => '𝄞'.repeat(characters);
const longest = {
  description: long(500),
  metadata: Object.fromEntries(
    Array.from({ length: 20 }, (_, at) => [`${long(38)}${10 + at}`, long(500)]),
  ),
};

export function payLoudly(): void {
  payImpatiently(paymentOf(exec.scenario.iterationInTest, longest));
}

export function payQuietly(): void {
  pay(paymentOf(exec.scenario.iterationInTest, { partner: 'globex' }));
}
