import type { ProviderLatency } from '@triplock/demo';
import type { SettingsOfServices } from '@triplock/launcher';

/** A kind of load: which file k6 runs, and what it needs of the system. */
export type LoadScenario = {
  name: string;
  /** One line for `--list`; the paragraph stands in the script. */
  shows: string;
  /** In `load-tests/k6`. */
  script: string;
  /** It is what it is: neither its rate nor its time can be asked for. */
  fixed?: true;
  /** Payments a second, and for how long, by default. */
  rate: number;
  seconds: number;
  /** Log-normal latency of the provider's simulator while it runs. */
  providerLatency?: ProviderLatency;
  /** It needs services that are set up for it, so it gets a system of its own. */
  settings?(rate: number): SettingsOfServices;
  /** What waits, and memory: stays where it is all the time, or returns to where it was. */
  level?: 'stays' | 'returns';
  /** It is run at rate after rate until one is too much. */
  searchesKnee?: true;
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
  },
  {
    name: 'spike',
    shows: 'a burst of five times the rate, and how the lag goes back',
    script: 'spike.ts',
    rate: 50,
    seconds: 60,
    level: 'returns',
  },
  {
    name: 'duplicates',
    shows: '30 % retries, 5 % twins at once, 1 % other bodies, 10 % late retries',
    script: 'duplicates.ts',
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
    shows: 'a partner at four times its rate limit, and a quiet one that must not notice',
    script: 'partners.ts',
    rate: 50,
    seconds: 30,
    settings: (rate) => ({
      'ingest-gateway': { RATE_LIMIT_PER_SECOND: `${rate}`, RATE_LIMIT_BURST: `${rate}` },
    }),
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
