/** What the runner gives a scenario, by environment variables; k6 shows them as `__ENV`. */
export const settings = {
  /** Base URLs of the gateways; requests go to them in turn. */
  gateways: required('GATEWAYS').split(','),
  /** API keys by partner. */
  apiKeys: JSON.parse(required('API_KEYS')) as Record<string, string>,
  /** Stands in every key, so that two runs share none. */
  run: required('RUN'),
  /** Logical payments a second; what a scenario does with it stands in its file. */
  rate: Number(required('RATE')),
  seconds: Number(required('SECONDS')),
  /** Where the tallies go. */
  summaryFile: required('SUMMARY_FILE'),
};

function required(name: string): string {
  const value = __ENV[name];
  if (!value) throw new Error(`${name} is missing: start scenarios by npm run load`);
  return value;
}
