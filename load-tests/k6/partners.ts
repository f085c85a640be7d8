// Shows that a noisy partner pays for its own noise: `acme` sends four times what its rate limit
// allows, in bodies that are as long as they may be, `globex` a few ordinary payments a second.
// acme is told 429 beyond its limit and gets what the limit allows; globex is never told so. First
// globex is alone for as long, so that its own latency is what the latency beside the flood is
// compared with, whatever the machine. The runner starts a system with a low limit for it.
import exec from 'k6/execution';
import { longest, pay, payImpatiently, paymentOf } from './partner/pay.ts';
import { settings, usersFor, usual } from './partner/scenario.ts';

export { handleSummary } from './partner/scenario.ts';

const { rate: limit, seconds } = settings;
const quietRate = Math.max(1, Math.round(limit / 4));
const open = { executor: 'constant-arrival-rate', duration: `${seconds}s` };

const flood = {
  ...usual,
  scenarios: {
    noisy: {
      ...open,
      ...usersFor(limit * 4),
      rate: limit * 4,
      startTime: `${seconds}s`,
      exec: 'payLoudly',
      tags: { partner: 'acme' },
    },
  },
  thresholds: {
    payments_unknown: ['count==0'],
    payments_refused: ['count==0'],
    'answers_limited{partner:acme}': ['count>0'],
    // Above it by the burst of one second, below it by what a machine under load does not get sent.
    'payments_accepted{partner:acme}': [
      `count<=${limit * (seconds + 2)}`,
      `count>=${Math.floor(limit * seconds * 0.8)}`,
    ],
  },
};

const besideIt = {
  ...usual,
  scenarios: {
    alone: {
      ...open,
      ...usersFor(quietRate),
      rate: quietRate,
      exec: 'payQuietly',
      tags: { partner: 'globex', beside: 'nobody' },
    },
    quiet: {
      ...open,
      ...usersFor(quietRate),
      rate: quietRate,
      startTime: `${seconds}s`,
      exec: 'payQuietly',
      tags: { partner: 'globex', beside: 'flood' },
    },
  },
  thresholds: {
    payments_unknown: ['count==0'],
    payments_refused: ['count==0'],
    'answers_limited{partner:globex}': ['count==0'],
    // The runner compares the two (load/judge.ts); k6 measures only what has a threshold.
    'accept_ms{beside:nobody}': ['p(99)<45000'],
    'accept_ms{beside:flood}': ['p(99)<45000'],
  },
};

export const options = settings.floods ? flood : besideIt;

export function payLoudly(): void {
  payImpatiently([paymentOf(exec.scenario.iterationInTest, longest)]);
}

export function payQuietly(): void {
  const { name, iterationInTest } = exec.scenario;
  const at = name === 'alone' ? iterationInTest : iterationInTest + quietRate * seconds * 2;
  pay(paymentOf(at, { partner: 'globex' }));
}
