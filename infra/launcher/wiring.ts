import type { ClaimServers } from '@triplock/claims';
import { readClaimStore, storeNamed, type ClaimStoreSettings } from '@triplock/claim-stores';
import type { ClaimStore, LedgerStore } from './choices.ts';
import { CommandError } from '@triplock/command';
import type { LedgerServers } from '@triplock/ledger';
import {
  isCopied,
  ledgerStoreNamed,
  readLedgerStore,
  type LedgerSettings,
} from '@triplock/ledgers';
import { keysOfOperators, providerNamed } from '@triplock/providers';
import type { Names } from './names.ts';
import type { Addresses } from './parts/part.ts';
import { pubsubProject } from './parts/pubsub.ts';
import { redisAs } from './parts/redis.ts';
import type { DatabaseUrls } from './provision/database.ts';
import {
  declarations,
  serviceOf,
  type DeclaredService,
  type GroupName,
  type RoleOfService,
  type SubscriptionName,
} from './services.ts';
import { type ProviderAccount, settingsOfAccounts } from './providers.ts';

/** `demo` and `test` allow what production refuses: crash points, webhooks to this machine. */
export type Mode = 'demo' | 'test';

/** Settings by the name of a service, or of `all` of them; they win over the launcher's own. */
export type SettingsOfServices = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** What the services of a system are wired to. */
export type Wiring = {
  mode: Mode;
  addresses: Addresses;
  databases: DatabaseUrls;
  claims: ClaimStore;
  ledger: LedgerStore;
  names: Names;
  accounts: readonly ProviderAccount[];
  /** What each process wants to be shown by whoever has it fail. */
  controlToken: string;
  /** The file of the keys that webhook secrets are sealed with. */
  webhookKeysFile: string;
  actionKeysFile: string;
  /** Every process of a service, and where it answers operators. */
  processes: readonly { name: string; url: string }[];
  /** Where a process that keeps something may keep it; `down --volumes` forgets it. */
  dataFolder: string;
  /** Where a demo on this machine has an agent: where it answers whom, and for which home. */
  agent?: {
    url: string;
    token: string;
    home: string;
    environment: Readonly<Record<string, string>>;
  };
  /** The file that tells the catcher the partners' secrets. */
  partnersFile: string;
  settings: SettingsOfServices;
};

/** Settings of both; where both have one, the second wins. */
export function mergeSettings(
  some: SettingsOfServices,
  more: SettingsOfServices,
): SettingsOfServices {
  const names = [...new Set([...Object.keys(some), ...Object.keys(more)])];
  return Object.fromEntries(names.map((name) => [name, { ...some[name], ...more[name] }]));
}

/** The services' settings for the names of a system's topics, groups and subscriptions. */
export function settingsOfNames(names: Names): SettingsOfServices {
  return Object.fromEntries(declarations.map((each) => [each.name, namesToldTo(each, names)]));
}

function namesToldTo({ kafka, claims, events, settings }: DeclaredService, names: Names) {
  const groups = Object.entries(kafka?.groups ?? {}) as [string, GroupName][];
  return {
    ...('ACCEPTED_TOPIC' in settings && { ACCEPTED_TOPIC: names.acceptedTopic }),
    ...('DEAD_LETTER_TOPIC' in settings && { DEAD_LETTER_TOPIC: names.deadLetterTopic }),
    ...('TOLD_TOPIC' in settings && { TOLD_TOPIC: names.toldTopic }),
    ...Object.fromEntries(groups.map(([setting, group]) => [setting, names.groups[group]])),
    ...(claims && { CLAIM_NAMESPACE: names.claims }),
    ...('EVENTS_TOPIC' in settings && { EVENTS_TOPIC: names.eventsTopic }),
    ...(events?.does === 'receive' && {
      EVENTS_SUBSCRIPTION: names.subscriptions[events.subscription as SubscriptionName],
    }),
  };
}

/** What a service is wired to, by what it declares that it needs. */
export function settingsOf(
  service: DeclaredService,
  wiring: Wiring,
): Readonly<Record<string, string>> {
  const { events, claims, ledger, role } = service;
  const { addresses, databases } = wiring;
  const { postRowsMax } = ledgerStoreNamed(wiring.ledger);
  return {
    CONTROL_TOKEN: wiring.controlToken,
    ...('WEBHOOK_KEYS' in service.settings && { WEBHOOK_KEYS_FILE: wiring.webhookKeysFile }),
    ...('ACTION_KEYS' in service.settings && { ACTION_KEYS_FILE: wiring.actionKeysFile }),
    ...('KAFKA_BROKERS' in service.settings && {
      KAFKA_BROKERS: addresses.kafka,
      KAFKA_CLIENT: kafkaClient(),
    }),
    ...('PUBSUB_PROJECT_ID' in service.settings && {
      PUBSUB_PROJECT_ID: pubsubProject,
      PUBSUB_EMULATOR_HOST: addresses.pubsub,
    }),
    // The emulator has no limit on a key.
    ...(events?.does === 'publish' && { ORDERING_KEYS: '8' }),
    ...(claims && claimSettings(service, wiring)),
    ...(ledger && ledgerAt(wiring.ledger, addresses, wiring.names)),
    ...(ledger === 'posts' && postRowsMax && { POST_ROWS_MAX: `${postRowsMax}` }),
    // Where it may copy the ledger to, for what reads it by SQL.
    ...(ledger === 'audits' && isCopied(wiring.ledger) && { LEDGER_COPY_URL: databases.copy }),
    ...settingsOfProviders(service, wiring),
    ...(role && { DATABASE_URL: databases[roleIn(role)] }),
    ...('CONSOLE_LOGIN' in service.settings && consoleSettings(wiring)),
  };
}

/** A console stands open in a demo, and acts by the role of each kind of act. */
function consoleSettings({
  databases,
  processes,
  agent,
  accounts,
}: Wiring): Readonly<Record<string, string>> {
  const auditor = processes.find(({ name }) => serviceOf(name) === 'auditor');
  return {
    CONSOLE_LOGIN: 'none',
    OPERATOR_DATABASE_URL: databases.operator,
    PARTNERS_DATABASE_URL: databases.partners,
    ...keysOfOperators(settingsOfAccounts(accounts)),
    PROCESS_URLS: processes.map(({ name, url }) => `${name}=${url}`).join(','),
    ...(auditor && { AUDITOR_URL: auditor.url }),
    ...(agent && { CONSOLE_AGENT_URL: agent.url, CONSOLE_AGENT_TOKEN: agent.token }),
  };
}

/** The library that all of them, and the operators' commands, speak to Kafka by. */
export function kafkaClient(): string {
  return process.env['KAFKA_CLIENT'] || 'kafkajs';
}

function roleIn(role: `triplock_${string}`): RoleOfService {
  return role.replace('triplock_', '') as RoleOfService;
}

/** Of every provider what its settings table asks for. */
function settingsOfProviders(
  { settings, provider }: DeclaredService,
  { accounts }: Wiring,
): Readonly<Record<string, string>> {
  const secrets = accounts.flatMap(({ provider: name, webhooks }) => {
    const { reports } = providerNamed(name);
    return reports && webhooks ? [[reports.secrets, webhooks.secrets] as const] : [];
  });
  const given = { ...settingsOfAccounts(accounts), ...Object.fromEntries(secrets) };
  const isSimulated = accounts.every(({ origin }) => origin === 'simulated');
  return {
    ...('PROVIDERS' in settings && {
      PROVIDERS: accounts.map(({ provider: name }) => name).join(','),
    }),
    ...(provider && Object.fromEntries(Object.entries(given).filter(([name]) => name in settings))),
    // A simulator answers within milliseconds, or not at all because a fault has it so.
    ...(provider === 'charges' && isSimulated && { PROVIDER_TIMEOUT_MS: '3000' }),
  };
}

/** The settings of whoever takes claims, or reads them by its own role. */
function claimSettings(
  { claims: use, role }: DeclaredService,
  { claims, addresses, databases }: Wiring,
): Readonly<Record<string, string>> {
  const postgres = use === 'reads' && role ? databases[roleIn(role)] : databases.claims;
  const redis = redisAs(addresses.redis, use === 'reads' ? 'auditor' : 'gateway');
  return claimsAt(claims, { ...addresses, postgres, redis });
}

/**
 * The settings of claims in a store whose servers are these.
 *
 * @throws CommandError where one of them is not there.
 */
export function claimsAt(
  store: ClaimStore,
  servers: ClaimServers,
): Readonly<Record<string, string>> {
  const { parts, settingsAt } = storeNamed(store);
  const missing = parts.find((part) => servers[part] === undefined);
  if (missing !== undefined) {
    throw new CommandError(`claims in ${store} need a server, ${missing}, and none runs here`);
  }
  return { CLAIMS: store, ...settingsAt(servers) };
}

/** The same as read, for whoever opens, inspects or provisions them; throws as that does. */
export function claimStoreAt(
  store: ClaimStore,
  servers: ClaimServers,
  namespace: string,
): ClaimStoreSettings {
  return readClaimStore({ ...claimsAt(store, servers), CLAIM_NAMESPACE: namespace });
}

/**
 * The settings of a ledger in a store whose servers are these, of a system of these names.
 *
 * @throws CommandError where one of them is not there.
 */
export function ledgerAt(
  store: LedgerStore,
  servers: LedgerServers,
  { database }: Pick<Names, 'database'>,
): Readonly<Record<string, string>> {
  const { parts, settingsAt } = ledgerStoreNamed(store);
  const missing = parts.find((part) => servers[part] === undefined);
  if (missing !== undefined) {
    throw new CommandError(`a ledger in ${store} needs a server, ${missing}, and none runs here`);
  }
  return { LEDGER_STORE: store, ...settingsAt(servers, database) };
}

/** The same as read, for whoever opens, inspects or provisions it; throws as that does. */
export function ledgerStoreAt(
  store: LedgerStore,
  servers: LedgerServers,
  names: Pick<Names, 'database'>,
): LedgerSettings {
  return readLedgerStore(ledgerAt(store, servers, names));
}
