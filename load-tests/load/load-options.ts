import { nearestName, wholeNumber } from '@triplock/demo';
import { UsageError } from '@triplock/launcher';
import { loadScenarios, type LoadScenario } from './load-scenarios.ts';

/** What was asked for on the command line. */
export type LoadOptions = {
  scenario: LoadScenario;
  rate: number;
  seconds: number;
  /** A gateway elsewhere and an API key for it, instead of a system that the launcher runs. */
  elsewhere?: { gateway: string; token: string };
};

type Values = Partial<Record<'rate' | 'seconds' | 'gateway' | 'token' | 'home', string>>;

/**
 * The options' values.  @throws UsageError for a scenario there is not, or a value out of range.
 */
export function readLoadOptions(name: string | undefined, values: Values): LoadOptions {
  const scenario = loadScenarios.find((each) => each.name === name);
  if (scenario === undefined) throw new UsageError(unknownScenario(name));
  const { rate, seconds, gateway, token } = values;
  if (scenario.fixed && (rate ?? seconds) !== undefined) {
    throw new UsageError(
      `${scenario.name} is always the same: it takes neither --rate nor --seconds`,
    );
  }
  const options = {
    scenario,
    rate: wholeNumber(rate, { option: 'rate', min: 1, max: 100_000 }) ?? scenario.rate,
    seconds: wholeNumber(seconds, { option: 'seconds', min: 1, max: 86_400 }) ?? scenario.seconds,
  };
  if (gateway === undefined && token === undefined) return options;
  if (gateway === undefined || token === undefined) {
    throw new UsageError('--gateway and --token go together: where to, and as whom');
  }
  if (values.home !== undefined) throw new UsageError('--gateway is elsewhere, --home is here');
  if (scenario.settings !== undefined || scenario.providerLatency !== undefined) {
    throw new UsageError(`${scenario.name} sets up a system for itself: it cannot run elsewhere`);
  }
  return { ...options, elsewhere: { gateway: readUrl(gateway), token } };
}

function unknownScenario(name: string | undefined): string {
  const names = loadScenarios.map((each) => each.name);
  if (name === undefined) return `say which scenario: ${names.join(', ')}`;
  const near = nearestName(name, names);
  const hint = near === undefined ? '' : `did you mean ${near}? `;
  return `there is no scenario "${name}": ${hint}It is one of ${names.join(', ')}`;
}

function readUrl(text: string): string {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new UsageError(`--gateway ${text}: expected a URL such as http://127.0.0.1:18080`);
  }
  return url.origin + url.pathname.replace(/\/$/, '');
}
