import { nearestName, type ProviderLatency } from '@triplock/demo';
import { UsageError, wholeNumber } from '@triplock/command';
import type { SettingsOfServices } from '@triplock/launcher';
import { besideSlow, overload, type Phase } from './phases.ts';

/** A kind of load: which file k6 runs, and what it needs of the system. */
export type LoadScenario = {
  name: string;
  /** One line for `--list`; the paragraph stands in the script. */
  shows: string;
  /** In `load-tests/k6`. */
  script: string;
  /** It has two parts, and the other one floods the system: each is sent by a k6 of its own. */
  floods?: true;
  /** It is what it is: neither its rate nor its time can be asked for. */
  fixed?: true;
  /** Payments a second, and for how long, by default. */
  rate: number;
  seconds: number;
  /** What it sends, in words, where that is not this rate for that long. */
  sends?(rate: number, seconds: number): string;
  /** Log-normal latency of the provider's simulator while it runs. */
  providerLatency?: ProviderLatency;
  /** Calls a second that the provider's simulator takes while it runs. */
  providerLimit?: number;
  /** It needs services that are set up for it, so it gets a system of its own. */
  settings?(rate: number): SettingsOfServices;
  /** Of each service, on the system of its own. */
  replicas?: number;
  /** No worker runs while it sends; the figures are of the time after that. */
  withoutWorkers?: true;
  /** What waits, and memory: stays where it is all the time, or returns to where it was. */
  level?: 'stays' | 'returns';
  /** How many of 100 payments are sent again, which can be asked for otherwise. */
  duplicatesPercent?: number;
  /** It is run at rate after rate until one is too much. */
  searchesKnee?: true;
  /** It is run once for each of them, and `seconds` is how long each takes. */
  phases?: readonly Phase[];
};

/** Every scenario, in the order in which one would try them. */
export const loadScenarios: readonly LoadScenario[] = [
  {
    name: 'smoke',
    shows: 'twenty payments one by one, each retried, each key tried with another body',
    script: 'smoke.ts',
    fixed: true,
    rate: 1,
    seconds: 20,
    sends: () => 'twenty payments one by one, as fast as they are answered',
  },
  {
    name: 'steady',
    shows: 'payments at a given rate, whether or not the earlier ones are answered',
    script: 'steady.ts',
    rate: 200,
    seconds: 60,
  },
  {
    name: 'ramp',
    shows: 'the highest rate at which every threshold of steady holds',
    script: 'steady.ts',
    rate: 100,
    seconds: 15,
    searchesKnee: true,
    sends: (rate, seconds) => `one rate after the other, from ${rate}/s, ${seconds} s each`,
  },
  {
    name: 'spike',
    shows: 'a burst of five times the rate, and how the lag goes back',
    script: 'spike.ts',
    rate: 50,
    seconds: 60,
    level: 'returns',
    sends: (rate, seconds) => `${rate}/s for ${seconds} s, of a fifth of it ${rate * 5}/s`,
  },
  {
    name: 'duplicates',
    shows: '30 % retries, 5 % twins at once, 1 % other bodies, 10 % late retries',
    script: 'duplicates.ts',
    duplicatesPercent: 45,
    rate: 100,
    seconds: 60,
  },
  {
    name: 'cards',
    shows: 'card payments at a provider that takes its time and declines one in ten',
    script: 'cards.ts',
    rate: 10,
    seconds: 60,
    providerLatency: { medianMs: 250, p99Ms: 1_200 },
  },
  {
    name: 'card-limit',
    shows: 'cards at four times what the provider takes: they end at its rate, others soon',
    script: 'card-limit.ts',
    rate: 400,
    seconds: 5,
    sends: (rate, seconds) =>
      `${rate} cards a second of one partner for ${seconds} s, and one a second of another`,
    providerLimit: 100,
    settings: () => ({}),
  },
  {
    name: 'refunds',
    shows: 'each payment half given back at once, one in ten asked for too much',
    script: 'refunds.ts',
    rate: 40,
    seconds: 60,
  },
  {
    name: 'hot-key',
    shows: 'refunds of a single payment: one partition, one row, one ordering key',
    script: 'hot-key.ts',
    rate: 50,
    seconds: 30,
  },
  {
    name: 'partners',
    shows:
      'the longest bodies at four times a rate limit, and a quiet partner that must not notice',
    script: 'partners.ts',
    floods: true,
    rate: 20,
    seconds: 30,
    sends: (rate, seconds) =>
      `a quiet partner's ${quietRateOf(rate)}/s for ${2 * seconds} s, and for the latter half ` +
      `${rate * 4}/s of one who may send ${rate}/s`,
    settings: (rate) => ({
      'ingest-gateway': { RATE_LIMIT_PER_SECOND: `${rate}`, RATE_LIMIT_BURST: `${rate}` },
    }),
  },
  {
    name: 'neighbour',
    shows: 'a partner that asks for all it may get and more, and a quiet one that hardly notices',
    script: 'neighbour.ts',
    floods: true,
    rate: 1_000,
    seconds: 20,
    sends: (rate, seconds) =>
      `a quiet partner's 10/s for ${2 * seconds} s, and for the latter half ${rate}/s of one who ` +
      'asks for balances, long lists, redeliveries and waits',
    settings: () => ({}),
  },
  {
    name: 'behind',
    shows: 'a few payments of one partner behind the backlog of another, once workers are back',
    script: 'behind.ts',
    rate: 1_000,
    seconds: 20,
    sends: (rate, seconds) =>
      `${rate}/s for ${seconds} s of one partner while no worker runs, then 20 of another`,
    withoutWorkers: true,
    settings: () => ({}),
  },
  {
    name: 'overload',
    shows: 'six times the rate: who is refused is so at once, who is accepted hardly waits',
    script: 'once.ts',
    rate: 200,
    seconds: 20,
    phases: overload,
    sends: (rate, seconds) =>
      `${rate}/s for ${seconds} s, ${rate * 6}/s for as long, and ${rate}/s again`,
  },
  {
    name: 'bursts',
    shows: 'up to 1 000 payments at once, fresh, warm and with one key: nobody is turned away',
    script: 'bursts.ts',
    fixed: true,
    rate: 1,
    seconds: 70,
    sends: () => '30 to 1 000 payments at once, nine times in 70 s',
    settings: () => ({}),
    replicas: 2,
  },
  {
    name: 'slow-receiver',
    shows: 'a receiver of webhooks that stands still, and a hot path that must not notice',
    script: 'once.ts',
    rate: 100,
    seconds: 20,
    phases: besideSlow('receiver'),
    sends: sendsBeside,
  },
  {
    name: 'slow-provider',
    shows: 'a provider that takes 5 s for each answer about the cards among the payments',
    script: 'once.ts',
    rate: 100,
    seconds: 20,
    phases: besideSlow('provider'),
    sends: sendsBeside,
  },
  {
    name: 'slow-consumer',
    shows: 'a consumer that stands still, for whom no partner waits',
    script: 'once.ts',
    rate: 100,
    seconds: 20,
    phases: besideSlow('consumer'),
    sends: sendsBeside,
  },
  {
    name: 'soak',
    shows: 'steady for half an hour: memory and lag stay where they are',
    script: 'steady.ts',
    rate: 100,
    seconds: 1_800,
    level: 'stays',
  },
];

/** As in partners.ts, which k6 runs. */
function quietRateOf(limit: number): number {
  return Math.max(1, Math.round(limit / 4));
}

function sendsBeside(rate: number, seconds: number): string {
  return `${rate}/s for ${seconds} s without it and for ${seconds} s beside it`;
}

/** What a scenario sends, in words. */
export function describeLoad({ scenario, rate, seconds }: LoadOptions): string {
  return scenario.sends?.(rate, seconds) ?? `${rate}/s for ${seconds} s`;
}

/** What was asked for on the command line. */
export type LoadOptions = {
  scenario: LoadScenario;
  rate: number;
  seconds: number;
  duplicatesPercent?: number;
  /** A gateway elsewhere and an API key for it, instead of a system that the launcher runs. */
  elsewhere?: { gateway: string; token: string };
  /** A new file for what was asked, answered and received. */
  history?: string;
};

type Values = Partial<
  Record<'rate' | 'seconds' | 'duplicates' | 'gateway' | 'token' | 'home' | 'history', string>
>;

/**
 * The options' values.  @throws UsageError for a scenario there is not, or a value out of range.
 */
export function readLoadOptions(name: string | undefined, values: Values): LoadOptions {
  const scenario = loadScenarios.find((each) => each.name === name);
  if (scenario === undefined) throw new UsageError(unknownScenario(name));
  const { rate, seconds, duplicates, gateway, token, history } = values;
  if (scenario.fixed && (rate ?? seconds) !== undefined) {
    throw new UsageError(
      `${scenario.name} is always the same: it takes neither --rate nor --seconds`,
    );
  }
  if (duplicates !== undefined && scenario.duplicatesPercent === undefined) {
    throw new UsageError(
      `${scenario.name} sends no chosen share again: --duplicates is not for it`,
    );
  }
  const duplicatesPercent =
    wholeNumber(duplicates, { option: 'duplicates', min: 0, max: 90 }) ??
    scenario.duplicatesPercent;
  const options = {
    scenario,
    rate: wholeNumber(rate, { option: 'rate', min: 1, max: 100_000 }) ?? scenario.rate,
    seconds: wholeNumber(seconds, { option: 'seconds', min: 1, max: 86_400 }) ?? scenario.seconds,
    ...(duplicatesPercent !== undefined && { duplicatesPercent }),
    ...(history !== undefined && { history }),
  };
  if (gateway === undefined && token === undefined) return options;
  if (history !== undefined) {
    throw new UsageError('--history needs the webhooks, which come to a system that runs here');
  }
  if (gateway === undefined || token === undefined) {
    throw new UsageError('--gateway and --token go together: where to, and as whom');
  }
  if (values.home !== undefined) throw new UsageError('--gateway is elsewhere, --home is here');
  if (scenario.settings ?? scenario.providerLatency ?? scenario.phases) {
    throw new UsageError(`${scenario.name} sets up a system for itself: it cannot run elsewhere`);
  }
  return { ...options, elsewhere: { gateway: readUrl(gateway), token } };
}

function unknownScenario(name: string | undefined): string {
  const names = loadScenarios.map((each) => each.name);
  if (name === undefined) return `a scenario is missing: one of ${names.join(', ')}`;
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
