import { join } from 'node:path';
import { usualNames } from '../names.ts';
import type { Addresses } from '../parts/start-parts.ts';
import { roleNames, type DatabaseUrls } from '../provision/database.ts';
import type { Wiring } from '../services.ts';

/** Where the parts and what stands beside them answer in the network of docker-compose.yml. */
export const inNetwork = {
  /** PostgreSQL as its superuser, without the password, which is made at the first start. */
  parts: {
    redis: 'redis://redis:6379',
    kafka: 'kafka:9092',
    postgres: 'postgres://postgres@postgres:5432/postgres',
    pubsub: 'pubsub:8085',
  } satisfies Addresses,
  stripe: 'http://stripe-simulator:8095',
  /** Any worker will do. */
  stripeWebhooks: 'http://ledger-worker:8070/stripe/webhooks',
  catcher: 'http://catcher:8090',
};

/**
 * What is made at the first start and kept in volumes: the credentials, which only PostgreSQL and the
 * steps before the services see, and what the services are told by files because it is secret.
 */
const credentialsFolder = '/run/credentials';
const wiringFolder = '/run/triplock';

export const credentialFiles = {
  /** PostgreSQL's password and the demo partners, as the launcher keeps them. */
  all: join(credentialsFolder, 'credentials.json'),
  postgresPassword: join(credentialsFolder, 'postgres-password'),
};

const databaseFiles = roleNames.map((role) => [role, join(wiringFolder, `database-${role}`)]);

export const wiringFiles = {
  databases: Object.fromEntries(databaseFiles) as DatabaseUrls,
  stripeApiKey: join(wiringFolder, 'stripe-api-key'),
  stripeUrl: join(wiringFolder, 'stripe-url'),
  stripeWebhookSecrets: join(wiringFolder, 'stripe-webhook-secrets'),
  partners: join(wiringFolder, 'partners.json'),
};

/** What the services are wired to in the network; a secret is the file that holds it. */
export const wiringInNetwork: Wiring = {
  mode: 'demo',
  addresses: inNetwork.parts,
  databases: wiringFiles.databases,
  claims: 'redis',
  ledger: 'postgres',
  names: usualNames,
  stripe: {
    origin: 'simulated',
    url: wiringFiles.stripeUrl,
    apiKey: wiringFiles.stripeApiKey,
    webhooks: { url: inNetwork.stripeWebhooks, secrets: wiringFiles.stripeWebhookSecrets },
  },
  dataFolder: '/data',
  partnersFile: wiringFiles.partners,
  settings: {},
};
