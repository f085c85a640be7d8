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
