import { join } from 'node:path';
import { homeAt } from '../home.ts';
import { usualNames } from '../names.ts';
import type { Addresses } from '../parts/part.ts';
import type { OptionalPartName } from '../parts/part-names.ts';
import { declaredParts } from '../parts/store-parts.ts';
import {
  accountSettings,
  operatorKeySettings,
  providerNamed,
  providerNames,
  type ListedProvider,
} from '@triplock/providers';
import { declarations } from '../services.ts';
import { readState } from '../session.ts';

const storeAddresses = Object.fromEntries(
  declaredParts.map(({ name, addressOf, container }) => [name, addressOf(name, container.port)]),
) as Record<OptionalPartName, string>;

/** Where the parts and what stands beside them answer in the network of docker-compose.yml. */
export const inNetwork = {
  /** PostgreSQL as its superuser, Redis as nobody: passwords are made at the first start. */
  parts: {
    redis: 'redis://redis:6379',
    kafka: 'kafka:9092',
    postgres: 'postgres://postgres@postgres:5432/postgres',
    pubsub: 'pubsub:8085',
    ...storeAddresses,
  } satisfies Addresses as Required<Addresses>,
  /** Each provider's simulator. */
  providers: Object.fromEntries(
    providerNames.map((name) => {
      const { simulator } = providerNamed(name);
      return [name, `http://${simulator.name}:${simulator.port.inside}`];
    }),
  ) as Record<ListedProvider, string>,
  /** Where they report; any worker will do. */
  reports: 'http://ledger-worker:8070',
  gateway: 'ingest-gateway:8080',
  catcher: 'http://catcher:8090',
  /** The machine that the containers run on, for the one that sends webhooks. */
  machine: 'host.docker.internal',
};

/** Made at the first start and kept in a volume that only PostgreSQL, Redis and the steps see. */
const credentialsFolder = '/run/credentials';

export const credentialFiles = {
  /** PostgreSQL's password and the demo partners, as the launcher keeps them. */
  all: join(credentialsFolder, 'credentials.json'),
  postgresPassword: join(credentialsFolder, 'postgres-password'),
  redisUsers: join(credentialsFolder, 'redis-users.acl'),
  webhookKeys: join(credentialsFolder, 'webhook-keys'),
  actionKeys: join(credentialsFolder, 'action-keys'),
  /** What the step before the services remembers from one `up` to the next. */
  remembered: join(credentialsFolder, 'remembered.json'),
};

/**
 * What a service is given as files, because it is secret or follows from what the step before the
 * services finds. Each service has a volume of its own for them, and sees no other's.
 */
export const settingsInFiles = [
  'CONTROL_TOKEN',
  'DATABASE_URL',
  'REDIS_URL',
  'CLAIMS_DATABASE_URL',
  'OPERATOR_DATABASE_URL',
  'PARTNERS_DATABASE_URL',
  'LEDGER_COPY_URL',
  ...Object.keys(accountSettings),
  ...Object.keys(operatorKeySettings),
  ...providerNames.flatMap((name) => {
    const { reports, simulator } = providerNamed(name);
    return reports === undefined ? [] : [reports.secrets, `${simulator.prefix}_WEBHOOK_SECRET`];
  }),
  'PROVIDER_TIMEOUT_MS',
  'POST_ROWS_MAX',
];

/** The file of a setting, where the service sees it. */
export function fileOf(setting: string): string {
  return join('/run/triplock', setting.toLowerCase().replaceAll('_', '-'));
}

/** Where the step before the services sees what `service` sees under /run/triplock. */
export function writtenAt(service: string, file: string): string {
  return file.replace('/run/triplock', join('/run/wiring', service));
}

/** The demo partners' API keys, by partner, for the container that plays them under load. */
export const apiKeysFile = '/run/triplock/api-keys.json';

/** What every service in containers is wired to in the same way, whatever the stores. */
export const networkWiring = {
  mode: 'demo',
  addresses: inNetwork.parts,
  names: usualNames,
  dataFolder: '/data',
  partnersFile: '/run/triplock/partners.json',
  webhookKeysFile: fileOf('WEBHOOK_KEYS'),
  actionKeysFile: fileOf('ACTION_KEYS'),
  settings: {},
  processes: declarations.map(({ name }) => ({ name, url: `http://${name}:9100` })),
} as const;

/** What the services of a home call the machine they run on, such as in the URL of a webhook. */
export function thisMachineFor(home?: string): string {
  return readState(homeAt(home)).parts === 'docker' ? inNetwork.machine : '127.0.0.1';
}
