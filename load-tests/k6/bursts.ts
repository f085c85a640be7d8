// Shows that a burst is no overload: thousands of payments at once on two gateways that had nothing
// to do, first as they come from their start, then warm, with a key each and all with one. Nobody
// is turned away who would have been answered in time, and right after a burst nobody is either.
// The runner starts a system for it.
import exec from 'k6/execution';
import { payImpatiently, paymentOf, payWithEverybody } from './partner/pay.ts';
import { usual } from './partner/scenario.ts';

export { handleSummary } from './partner/scenario.ts';

type Burst = { at: number; requests: number; keys?: 'one' };

/**
 * `at` is in seconds, far enough apart for what was accepted to be posted; two come right after.
 */
const bursts: Readonly<Record<string, Burst>> = {
  fresh: { at: 0, requests: 1_000 },
  after_30: { at: 2, requests: 30 },
  after_150: { at: 3, requests: 150 },
  warm_30: { at: 15, requests: 30 },
  warm_300: { at: 20, requests: 300 },
  warm_1000: { at: 30, requests: 1_000 },
  one_key_30: { at: 45, requests: 30, keys: 'one' },
  one_key_300: { at: 50, requests: 300, keys: 'one' },
  one_key_1000: { at: 60, requests: 1_000, keys: 'one' },
};

// One user sends them all: as many users would take half of the machine that is to answer them.
const burst = ({ at, keys }: Burst) => ({
  executor: 'per-vu-iterations',
  vus: 1,
  iterations: 1,
  startTime: `${at}s`,
  maxDuration: '14s',
  gracefulStop: '1s',
  exec: keys === 'one' ? 'payWithOneKey' : 'payOnceEach',
});

const requestsMax = Math.max(...Object.values(bursts).map(({ requests }) => requests));

export const options = {
  ...usual,
  batch: requestsMax,
  batchPerHost: requestsMax,
  scenarios: Object.fromEntries(Object.entries(bursts).map(([name, each]) => [name, burst(each)])),
  thresholds: {
    payments_turned_away: ['count==0'],
    payments_unknown: ['count==0'],
    payments_refused: ['count==0'],
    duplicates_unanswered: ['count==0'],
    ...Object.fromEntries(
      Object.keys(bursts).map((name) => [`burst_ms{scenario:${name}}`, ['max<1500']]),
    ),
  },
};

/** Orders are numbered through, over all bursts. */
const firstOf = (name: string) =>
  Object.entries(bursts)
    .slice(0, Object.keys(bursts).indexOf(name))
    .reduce((sum, [, { requests }]) => sum + requests, 0);

export function payOnceEach(): void {
  const { name } = exec.scenario;
  const length = bursts[name]!.requests;
  payImpatiently(Array.from({ length }, (_, at) => paymentOf(firstOf(name) + at)));
}

export function payWithOneKey(): void {
  const { name } = exec.scenario;
  payWithEverybody(paymentOf(firstOf(name)), bursts[name]!.requests);
}
