import { join } from 'node:path';
import { pubsubProject } from './parts/pubsub.ts';
import type { PortRequest } from './ports.ts';
import { simulator, type StripeAccount } from './stripe.ts';
import { claimSettings, ledgerSettings, type Wiring } from './wiring.ts';

/** A kind of process that the launcher runs beside the parts. */
export type Service = {
  name: string;
  /** Its main file, from the clone's root. */
  main: string;
  /** One of it whatever `--replicas` says, or as many as that. */
  copies: 'one' | 'replicas';
  /**
   * Where it listens: the variable that names it, and the path that answers 200 when it is ready.
   */
  ports: readonly (Omit<PortRequest, 'offset'> & { setting: string; ready: string })[];
  settings(wiring: Wiring): Readonly<Record<string, string>>;
};

/** Health, readiness and metrics. All services count from one usual port, ten apart. */
const adminPort = {
  use: 'admin',
  setting: 'ADMIN_PORT',
  ready: '/readyz',
  usual: 18_100,
  variable: 'TRIPLOCK_ADMIN_PORT',
};

const gatewayPort = {
  use: 'http',
  setting: 'HTTP_PORT',
  ready: '/healthz',
  usual: 18_080,
  variable: 'TRIPLOCK_GATEWAY_PORT',
};

/** Where the provider reports what it decided later. */
const webhooksPort = {
  use: 'webhooks',
  setting: 'WEBHOOKS_PORT',
  ready: '/healthz',
  usual: 18_070,
  variable: 'TRIPLOCK_STRIPE_WEBHOOKS_PORT',
};

const catcherPort = {
  use: 'http',
  setting: 'CATCHER_PORT',
  ready: '/healthz',
  usual: 18_090,
  variable: 'TRIPLOCK_CATCHER_PORT',
};

const simulatorPort = {
  use: 'http',
  setting: 'STRIPE_SIMULATOR_PORT',
  ready: '/readyz',
  usual: 18_095,
  variable: 'TRIPLOCK_STRIPE_PORT',
};

const kafkaSettings = ({ addresses }: Wiring) => ({ KAFKA_BROKERS: addresses.kafka });

const pubsubSettings = ({ addresses }: Wiring) => ({
  PUBSUB_PROJECT_ID: pubsubProject,
  PUBSUB_EMULATOR_HOST: addresses.pubsub,
});

const stripeSettings = ({ stripe }: Wiring) => ({
  STRIPE_API_KEY: stripe.apiKey,
  STRIPE_API_URL: stripe.url,
});

/** Every service, in the order in which `down` stops them: first those that take work in. */
export const services: readonly Service[] = [
  {
    name: 'ingest-gateway',
    main: 'services/ingest-gateway/main.ts',
    copies: 'replicas',
    ports: [adminPort, gatewayPort],
    settings: (wiring) => ({
      ...kafkaSettings(wiring),
      ...claimSettings(wiring),
      ...ledgerSettings(wiring),
      DATABASE_URL: wiring.databases.gateway,
    }),
  },
  {
    name: 'ledger-worker',
    main: 'services/ledger-worker/main.ts',
    copies: 'replicas',
    ports: [webhooksPort, adminPort],
    settings: (wiring) => ({
      ...kafkaSettings(wiring),
      ...ledgerSettings(wiring),
      // The emulator's commits cost the square of their rows.
      ...(wiring.ledger === 'spanner' && { POST_ROWS_MAX: '25' }),
      DATABASE_URL: wiring.databases.ledger,
      ...stripeSettings(wiring),
      ...(wiring.stripe.webhooks && { STRIPE_WEBHOOK_SECRETS: wiring.stripe.webhooks.secrets }),
      // A simulator answers within milliseconds, or not at all because it was told so.
      ...(wiring.stripe.origin === 'simulated' && { PROVIDER_TIMEOUT_MS: '3000' }),
    }),
  },
  {
    name: 'outbox-dispatcher',
    main: 'services/outbox-dispatcher/main.ts',
    copies: 'replicas',
    ports: [adminPort],
    settings: (wiring) => ({
      ...pubsubSettings(wiring),
      ...ledgerSettings(wiring),
      DATABASE_URL: wiring.databases.ledger,
    }),
  },
  {
    name: 'partner-notifier',
    main: 'services/partner-notifier/main.ts',
    copies: 'replicas',
    ports: [adminPort],
    settings: (wiring) => ({
      ...pubsubSettings(wiring),
      DATABASE_URL: wiring.databases.notifier,
    }),
  },
  {
    name: 'settlement-feed',
    main: 'services/settlement-feed/main.ts',
    copies: 'replicas',
    ports: [adminPort],
    settings: (wiring) => ({
      ...pubsubSettings(wiring),
      DATABASE_URL: wiring.databases.settlement,
    }),
  },
  {
    name: 'auditor',
    main: 'services/auditor/main.ts',
    copies: 'replicas',
    ports: [adminPort],
    settings: (wiring) => ({
      ...kafkaSettings(wiring),
      ...pubsubSettings(wiring),
      ...stripeSettings(wiring),
      ...ledgerSettings(wiring),
      // Where it may copy the ledger to, for what reads it by SQL.
      ...(wiring.ledger === 'spanner' && { LEDGER_COPY_URL: wiring.databases.ledger }),
      DATABASE_URL: wiring.databases.auditor,
    }),
  },
  {
    name: 'stripe-simulator',
    main: 'infra/stripe-simulator/main.ts',
    copies: 'one',
    ports: [simulatorPort],
    settings: ({ dataFolder, stripe: { webhooks } }) => ({
      STRIPE_SIMULATOR_JOURNAL: join(dataFolder, 'stripe.jsonl'),
      ...(webhooks && {
        STRIPE_SIMULATOR_WEBHOOK_URL: webhooks.url,
        STRIPE_SIMULATOR_WEBHOOK_SECRET: webhooks.secrets,
      }),
    }),
  },
  {
    name: 'catcher',
    main: 'demo/catcher/main.ts',
    copies: 'one',
    ports: [catcherPort],
    settings: ({ partnersFile }) => ({ CATCHER_PARTNERS_FILE: partnersFile }),
  },
];

/** `ledger-worker` of `ledger-worker-2`. */
export function serviceOf(name: string): string {
  return name.replace(/-\d+$/, '');
}

/**
 * The table without the simulator where Stripe itself is asked, and without a port for its webhooks
 * where it sends none.
 */
export function servicesFor(stripe: StripeAccount, table: readonly Service[]): readonly Service[] {
  const asked =
    stripe.origin === 'simulated' ? table : table.filter(({ name }) => name !== simulator);
  if (stripe.webhooks) return asked;
  return asked.map((each) => ({
    ...each,
    ports: each.ports.filter(({ use }) => use !== 'webhooks'),
  }));
}
