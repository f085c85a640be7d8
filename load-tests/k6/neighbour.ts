// Shows what a partner has of another one that asks for as much as it may, and more, without paying
// anything: balances, pages of a hundred payments of 45 KB, windows of redeliveries, waits.
// `globex` pays a few times a second, first alone and then beside it, and must hardly notice: the
// runner compares the two (load/judge.ts). What acme asks for is answered, or refused and done not
// at all.
import { check } from 'k6';
import exec from 'k6/execution';
import http from 'k6/http';
import { longest, pay, paymentOf } from './partner/pay.ts';
import { clearAnswers, settings, tallies, usual } from './partner/scenario.ts';

export { handleSummary } from './partner/scenario.ts';

const { rate, seconds } = settings;
/** Within it acme's pages are filled; until then nobody is alone. */
const leadSeconds = 5;
const quiet = {
  executor: 'constant-arrival-rate',
  rate: 10,
  duration: `${seconds}s`,
  preAllocatedVUs: 20,
  maxVUs: 50,
  gracefulStop: '60s',
  exec: 'payQuietly',
};

const besideIt = {
  ...usual,
  scenarios: {
    alone: {
      ...quiet,
      startTime: `${leadSeconds}s`,
      tags: { partner: 'globex', beside: 'nobody' },
    },
    beside: {
      ...quiet,
      startTime: `${leadSeconds + seconds}s`,
      tags: { partner: 'globex', beside: 'flood' },
    },
  },
  thresholds: {
    payments_unknown: clearAnswers.payments_unknown,
    payments_refused: clearAnswers.payments_refused,
    'answers_limited{partner:globex}': ['count==0'],
    // k6 measures only what has a threshold.
    'accept_ms{beside:nobody}': ['p(99)<45000'],
    'accept_ms{beside:flood}': ['p(99)<45000'],
  },
};

const flood = {
  ...usual,
  scenarios: {
    reading: {
      executor: 'constant-arrival-rate',
      rate,
      duration: `${seconds}s`,
      startTime: `${leadSeconds + seconds}s`,
      preAllocatedVUs: 400,
      maxVUs: 400,
      exec: 'askForMuch',
      tags: { partner: 'acme' },
    },
  },
  thresholds: {
    payments_unknown: clearAnswers.payments_unknown,
    payments_refused: clearAnswers.payments_refused,
    'answers_limited{partner:acme}': ['count>0'],
    'checks{partner:acme}': ['rate==1'],
  },
};

export const options = settings.floods ? flood : besideIt;

const pageOfPayments = 100;

/** What acme's pages are made of. */
export function setup(): { payment: string } | undefined {
  if (!settings.floods) return undefined;
  const accepted = Array.from({ length: pageOfPayments }, (_, n) => pay(paymentOf(n, longest)));
  return { payment: accepted.find((each) => each !== undefined)!.id };
}

export function payQuietly(): void {
  const { name, iterationInTest } = exec.scenario;
  const before = pageOfPayments + (name === 'alone' ? 0 : quiet.rate * seconds * 2);
  pay(paymentOf(before + iterationInTest, { partner: 'globex' }));
}

/** As a page of an impatient back office does: what was slow is asked for again. */
export function askForMuch({ payment }: { payment: string }): void {
  const n = exec.scenario.iterationInTest;
  const gateway = settings.gateways[n % settings.gateways.length]!;
  const headers = { authorization: `Bearer ${settings.apiKeys['acme']}` };
  const params = (more = {}) => ({
    headers: { ...headers, ...more },
    timeout: '40s',
    // Nobody looks at it: to make text of a page costs k6 more than the page costs the gateway.
    responseType: 'none' as const,
    tags: { name: 'asked for much' },
  });
  const answer = (() => {
    switch (n % 10) {
      case 0:
        return http.get(`${gateway}/v1/payments?limit=${pageOfPayments}`, params());
      case 1:
        return http.get(`${gateway}/v1/payments/${payment}`, params({ prefer: 'wait=30' }));
      case 2: {
        const key = `load-${settings.run}-again-${n}`;
        const since = new Date(Date.now() - 3_600_000).toISOString();
        return http.post(
          `${gateway}/v1/webhook-deliveries/redeliver`,
          JSON.stringify({ since, status: 'failed' }),
          params({ 'content-type': 'application/json', 'idempotency-key': key }),
        );
      }
      default:
        return http.get(`${gateway}/v1/balance`, params());
    }
  })();
  if (answer.status === 429) tallies.limited.add(1);
  // 0 is a connection that ended, as it does after so many refusals in a row.
  check(answer, { answered: ({ status }) => [0, 200, 202, 429, 503].includes(status) });
}
