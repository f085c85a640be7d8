/** What the runner gives a scenario, by environment variables; k6 shows them as `__ENV`. */
export const settings = {
  /** Base URLs of the gateways; requests go to them in turn. */
  gateways: required('GATEWAYS').split(','),
  /** API keys by partner; where k6 is started by itself, they stand in a file. */
  apiKeys: JSON.parse(__ENV['API_KEYS'] || open(required('API_KEYS_FILE'))) as Record<
    string,
    string
  >,
  /** Stands in every key, so that two runs share none. */
  run: required('RUN'),
  /** Logical payments a second; what a scenario does with it stands in its file. */
  rate: Number(required('RATE')),
  seconds: Number(required('SECONDS')),
  /** Where the tallies go; without it they are printed. */
  summaryFile: __ENV['SUMMARY_FILE'],
};

function required(name: string): string {
  const value = __ENV[name];
  if (!value)
    throw new Error(`${name} is missing: start scenarios by npm run load, or give it with --env`);
  return value;
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
