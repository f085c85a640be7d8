import { flushCompileCache } from 'node:module';
import {
  controlSettings,
  integer,
  port,
  readSettings,
  text,
  url,
  withDefault,
} from '@triplock/runtime';
import { authorizedForMsMax } from './engine.ts';
import { startSimulator, type SimulatorOptions } from './simulator.ts';

const milliseconds = integer({ min: 0, max: 86_400_000 });

const authorizedForMs = integer({ min: 0, max: authorizedForMsMax });

const settings = {
  ...controlSettings,
  STRIPE_SIMULATOR_HOST: withDefault(text, '127.0.0.1'),
  STRIPE_SIMULATOR_PORT: port,
  STRIPE_SIMULATOR_JOURNAL: text,
  STRIPE_SIMULATOR_SEED: withDefault(integer({ min: 0, max: 4_294_967_295 }), 1),
  STRIPE_SIMULATOR_WEBHOOK_URL: withDefault(url(['http:', 'https:']), null),
  STRIPE_SIMULATOR_WEBHOOK_SECRET: withDefault(text, 'whsec_triplock_simulator'),
  STRIPE_SIMULATOR_LATENCY_MEDIAN_MS: withDefault(milliseconds, 0),
  STRIPE_SIMULATOR_LATENCY_P99_MS: withDefault(milliseconds, 0),
  // "Data is searchable in under 1 minute": https://docs.stripe.com/search#data-freshness
  STRIPE_SIMULATOR_SEARCH_LAG_MS: withDefault(milliseconds, 60_000),
  STRIPE_SIMULATOR_SETTLE_AFTER_MS: withDefault(milliseconds, 2_000),
  // "7 by default": https://docs.stripe.com/api/payment_intents/capture
  STRIPE_SIMULATOR_AUTHORIZED_FOR_MS: withDefault(authorizedForMs, 604_800_000),
} as const;

/** The simulator's settings from the environment. */
function readConfig(environment: NodeJS.ProcessEnv): Omit<SimulatorOptions, 'onBroken'> {
  const read = readSettings(environment, settings);
  return {
    journal: read.STRIPE_SIMULATOR_JOURNAL,
    host: read.STRIPE_SIMULATOR_HOST,
    port: read.STRIPE_SIMULATOR_PORT,
    controlToken: read.CONTROL_TOKEN,
    seed: read.STRIPE_SIMULATOR_SEED,
    dials: {
      latency: {
        medianMs: read.STRIPE_SIMULATOR_LATENCY_MEDIAN_MS,
        p99Ms: read.STRIPE_SIMULATOR_LATENCY_P99_MS,
      },
      searchLagMs: read.STRIPE_SIMULATOR_SEARCH_LAG_MS,
      settleAfterMs: read.STRIPE_SIMULATOR_SETTLE_AFTER_MS,
      authorizedForMs: read.STRIPE_SIMULATOR_AUTHORIZED_FOR_MS,
      webhooks: {
        url: read.STRIPE_SIMULATOR_WEBHOOK_URL,
        secret: read.STRIPE_SIMULATOR_WEBHOOK_SECRET,
        order: 'any',
        copies: 1,
        paused: false,
      },
    },
  };
}

// A process that speaks Stripe's wire on 127.0.0.1; README.md tells the rest.
const simulator = await startSimulator({
  ...readConfig(process.env),
  onBroken(error) {
    console.error(error);
    process.exit(1);
  },
});
console.log(`the Stripe simulator answers at ${simulator.url}`);
// Node keeps compiled code as a process ends, and one that is killed would keep none for the next.
flushCompileCache();

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.once(signal, () => void simulator.close());
}
