import type { ClaimStore, LedgerStore } from './choices.ts';
import { type Home, type PartnerCredentials, readJson } from './home.ts';
import type { Addresses } from './parts/part.ts';
import { pubsubProject } from './parts/pubsub.ts';
import type { ProvisionedDatabase } from './provision/database.ts';
import { serviceOf } from './services.ts';
import type { ProcessRecord, Session } from './session.ts';
import { inStopOrder } from './stop-order.ts';
import { type ListedProvider, pathOfReports, providerNamed } from '@triplock/providers';
import type { ProviderAccount } from './providers.ts';
import type { Mode } from './wiring.ts';

/** Where the parts of a home answer. */
export type PartEndpoints = Addresses & {
  /** The home's folder, absolute. */
  home: string;
  /** As a role that may create databases and roles. */
  postgres: string;
  pubsubProject: string;
};

/** A running process of a service and its operators' URLs. */
export type ServiceEndpoint = {
  /** `<service>-<replica>`, e.g. `ledger-worker-1`. */
  name: string;
  service: string;
  pid: number;
  health: string;
  ready: string;
  metrics: string;
};

/** Each provider's interface, or its simulator's, by the provider's name. */
type ProviderUrls = Readonly<Record<ListedProvider, string>>;

/** Where the whole system of a home answers. */
export type Endpoints = PartEndpoints &
  ProviderUrls & {
    mode: Mode;
    /** The first replica's. */
    gateway: string;
    gateways: string[];
    /**
     * Each provider's interface, or its simulator's, and where it, or whoever forges it, may tell
     * each worker something.
     */
    providers: Readonly<Record<ListedProvider, { url: string; webhooks: string[] }>>;
    /** Where claims are kept. */
    claims: ClaimStore;
    /** Where the ledger and its outbox are kept. */
    ledger: LedgerStore;
    catcher: string;
    /** The operators' console, for a browser on this machine. */
    console?: string;
    /** What breaks things for a console, where the home has it; behind a token of its own. */
    agent?: { url: string; token: string };
    /** What crash points, the simulator's controls and the catcher's want to be shown. */
    controlToken: string;
    partners: readonly PartnerCredentials[];
    /** The database's URL as each role. */
    databases: ProvisionedDatabase['roles'];
    services: ServiceEndpoint[];
  };

/** Whether the services are up as well. */
export function isWholeSystem(endpoints: Endpoints | PartEndpoints): endpoints is Endpoints {
  return 'gateways' in endpoints;
}

/** The endpoints of a home that has its parts up. */
export function partEndpoints(home: Home, addresses: Addresses): PartEndpoints {
  return { home: home.folder, ...addresses, pubsubProject };
}

/** The endpoints of a home that has everything up. */
export function systemEndpoints(
  session: Pick<Session, 'home' | 'state' | 'credentials'>,
  system: {
    addresses: Addresses;
    database: ProvisionedDatabase;
    accounts: readonly ProviderAccount[];
    mode: Mode;
  },
): Endpoints {
  const { home, state, credentials } = session;
  const records = Object.values(state.processes);
  const urlsOf = (service: string, use = 'http') =>
    records
      .filter(({ name }) => serviceOf(name) === service)
      .sort(byName)
      .flatMap(({ ports }) => (ports[use] === undefined ? [] : `http://127.0.0.1:${ports[use]}`));
  const gateways = urlsOf('ingest-gateway');
  const webhooks = urlsOf('ledger-worker', 'webhooks');
  const [consoleUrl] = urlsOf('console');
  const [agentUrl] = urlsOf('agent');
  return {
    ...partEndpoints(home, system.addresses),
    postgres: system.database.owner,
    mode: system.mode,
    gateway: gateways[0]!,
    gateways,
    ...(Object.fromEntries(
      system.accounts.map(({ provider, url }) => [provider, url]),
    ) as ProviderUrls),
    providers: Object.fromEntries(
      system.accounts.map(({ provider, url }) => [
        provider,
        { url, webhooks: reportsOf(provider).flatMap((path) => webhooks.map((at) => at + path)) },
      ]),
    ) as Endpoints['providers'],
    claims: state.claims ?? 'redis',
    ledger: state.ledger ?? 'postgres',
    catcher: urlsOf('catcher')[0]!,
    ...(consoleUrl !== undefined && { console: consoleUrl }),
    ...(agentUrl !== undefined && { agent: { url: agentUrl, token: credentials.agentToken } }),
    controlToken: credentials.controlToken,
    partners: credentials.partners,
    databases: system.database.roles,
    services: serviceEndpoints(records),
  };
}

/** The path at which a provider reports, where it does. */
function reportsOf(provider: ListedProvider): string[] {
  return providerNamed(provider).reports === undefined ? [] : [pathOfReports(provider)];
}

/** Those of the processes that have an admin server. */
export function serviceEndpoints(records: readonly ProcessRecord[]): ServiceEndpoint[] {
  const byProcess = new Map(records.map((record) => [record.name, record]));
  return inStopOrder([...byProcess.keys()].sort())
    .flat()
    .map((name) => byProcess.get(name)!)
    .filter(({ ports }) => ports['admin'] !== undefined)
    .map(({ name, pid, ports }) => {
      const admin = `http://127.0.0.1:${ports['admin']}`;
      return {
        name,
        service: serviceOf(name),
        pid,
        health: `${admin}/healthz`,
        ready: `${admin}/readyz`,
        metrics: `${admin}/metrics`,
      };
    });
}

/** What the last `up` left in the home; `undefined` when nothing is up. */
export function readEndpoints(home: Home): Endpoints | PartEndpoints | undefined {
  return readJson(home.endpoints) as Endpoints | PartEndpoints | undefined;
}

function byName(one: ProcessRecord, other: ProcessRecord): number {
  return one.name.localeCompare(other.name, 'en', { numeric: true });
}
