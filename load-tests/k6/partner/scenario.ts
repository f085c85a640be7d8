import { Counter, Trend } from 'k6/metrics';

/** What the runner gives a scenario, by environment variables; k6 shows them as `__ENV`. */
export const settings = {
  /** Base URLs of the gateways; requests go to them in turn. */
  gateways: required('GATEWAYS').split(','),
  /** API keys by partner; where k6 is started by itself, they stand in a file. */
  apiKeys: JSON.parse(__ENV['API_KEYS'] || open(required('API_KEYS_FILE'))) as Record<
    string,
    string
  >,
  /** Stands in every key, so that two runs share none; in a container its own name will do. */
  run: __ENV['RUN'] || inLetters(__ENV['HOSTNAME'] ?? '') || required('RUN'),
  /** Logical payments a second; what a scenario does with it stands in its file. */
  rate: Number(required('RATE')),
  seconds: Number(required('SECONDS')),
  /** Of `duplicates`: how many of 100 payments are sent again. */
  duplicatesPercent: Number(__ENV['DUPLICATES'] || 45),
  /** Of a script with a flood: whether this process of k6 sends it, or what is beside it. */
  floods: __ENV['FLOODS'] === 'true',
  /** Where the tallies go; without it they are printed. */
  summaryFile: __ENV['SUMMARY_FILE'],
  /** Whether every request and its answer is written to the console, for the runner's history. */
  writesHistory: __ENV['HISTORY'] === 'true',
};

function required(name: string): string {
  const value = __ENV[name];
  if (!value)
    throw new Error(`${name} is missing: start scenarios by npm run load, or give it with --env`);
  return value;
}

/** Digits of a run and of a request's number could be a payment card's, which a gateway refuses. */
function inLetters(name: string): string {
  return name.replace(/\d/g, (digit) => 'ghijklmnop'[Number(digit)]!);
}

type Measured = {
  metrics: Record<
    string,
    { values: Record<string, number>; thresholds?: Record<string, { ok: boolean }> }
  >;
};

/**
 * k6 calls it at the end of a run: everything it measured goes to the runner's file, or, where
 * nobody reads one, what a scenario promises is printed.
 */
export function handleSummary(data: Measured): Record<string, string> {
  const { summaryFile } = settings;
  if (summaryFile) return { [summaryFile]: JSON.stringify(data) };
  const lines = Object.entries(data.metrics).flatMap(([name, { values, thresholds = {} }]) =>
    Object.entries(thresholds).map(([wanted, { ok }]) => {
      const seen = values['count'] ?? values['p(99)'] ?? 0;
      return `${ok ? '✓' : '✗'} ${name} ${wanted} (${Math.round(seen)})`;
    }),
  );
  return { stdout: `${lines.join('\n')}\n` };
}

/** What every scenario asks of k6. */
export const usual = {
  summaryTrendStats: ['min', 'avg', 'med', 'p(90)', 'p(95)', 'p(99)', 'max'],
  // A key is in no tag, so that series do not grow with payments.
  systemTags: ['status', 'method', 'name', 'scenario', 'expected_response'],
  // A name may stand for several gateways, as in containers; each connection goes to the next one.
  dns: { ttl: '0', select: 'roundRobin' },
};

/**
 * What holds in every open scenario: each key got a clear answer in the end, and the load was what
 * was asked for but for 1 % that k6 itself could not send in time.
 */
export const clearAnswers = {
  payments_unknown: ['count==0'],
  payments_refused: ['count==0'],
  refunds_unknown: ['count==0'],
  refunds_refused: ['count==0'],
  dropped_iterations: [`count<=${Math.ceil(settings.rate * settings.seconds * 0.01)}`],
};

/** Virtual users for an open model at a rate: each is held as long as one payment takes. */
export function usersFor(rate: number): {
  preAllocatedVUs: number;
  maxVUs: number;
  gracefulStop: string;
} {
  return {
    // One that is made in the middle of a run comes too late for its payment, which is dropped.
    preAllocatedVUs: Math.max(20, rate),
    maxVUs: Math.max(50, rate * 3),
    // Longer than a partner's patience: one that is cut off would never say how its payment ended.
    gracefulStop: '60s',
  };
}

/**
 * What a partner knows after a run. The runner compares it with what the system says of itself, so
 * each counts single requests or keys, and none is an estimate.
 */
export const tallies = {
  /** Keys for which a payment was asked, each once however often it was sent. */
  asked: new Counter('payments_asked'),
  /** Keys for which a 202 came, and their amounts in minor units. */
  accepted: new Counter('payments_accepted'),
  acceptedAmount: new Counter('payments_accepted_amount'),
  /** Keys that were given up without a clear answer: accepted or not, nobody here knows. */
  unknown: new Counter('payments_unknown'),
  unknownAmount: new Counter('payments_unknown_amount'),
  /** Keys that were refused for good. */
  refused: new Counter('payments_refused'),
  /** Keys whose one request was refused before anything was done, where no second one was meant. */
  turnedAway: new Counter('payments_turned_away'),
  /** The same for refunds; an amount is that which was asked for. */
  refundsAsked: new Counter('refunds_asked'),
  refundsAccepted: new Counter('refunds_accepted'),
  refundsAcceptedAmount: new Counter('refunds_accepted_amount'),
  refundsUnknown: new Counter('refunds_unknown'),
  refundsUnknownAmount: new Counter('refunds_unknown_amount'),
  refundsRefused: new Counter('refunds_refused'),
  /** Keys of refunds of more than is left, which were refused as that. */
  refundsTooMuch: new Counter('refunds_too_much'),
  /** Requests sent although the same one was answered or on its way. */
  duplicates: new Counter('duplicates_sent'),
  /** Those that were answered as the first was, byte for byte, or by 409. */
  duplicatesCaught: new Counter('duplicates_caught'),
  /** Those that got a 202 of their own, with the same bytes: guard 2 must absorb them. */
  duplicatesPassed: new Counter('duplicates_passed'),
  /** Those that got no answer, or one of trouble. */
  duplicatesUnanswered: new Counter('duplicates_unanswered'),
  /** Those that were answered wrongly. Always 0. */
  duplicatesAltered: new Counter('duplicates_altered'),
  /** Requests with another body under a used key, and those that were refused by 422. */
  otherBodies: new Counter('other_bodies_sent'),
  otherBodiesRefused: new Counter('other_bodies_refused'),
  /** Answers by what they say of duplicates, as the gateways count them too. */
  replayed: new Counter('answers_replayed'),
  inFlight: new Counter('answers_in_flight'),
  reused: new Counter('answers_reused'),
  limited: new Counter('answers_limited'),
  unanswered: new Counter('requests_unanswered'),
  /** From the first request of a key to its 202, retries in between included. Milliseconds. */
  acceptMs: new Trend('accept_ms', true),
  /** Of one request whose answer is taken for what it is, whatever it says. Milliseconds. */
  burstMs: new Trend('burst_ms', true),
};
