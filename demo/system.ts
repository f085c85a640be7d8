import { setMaxListeners } from 'node:events';
import {
  bringUp,
  claimStoreAt,
  ledgerStoreAt,
  runningSystem,
  startCommand,
  usualNames,
  type BringUp,
  type Endpoints,
  type Names,
  type ServiceEndpoint,
  type ServiceName,
  type SettingsOfServices,
} from '@triplock/launcher';
import { UsageError, style, type Terminal } from '@triplock/command';
import type { LedgerInspector } from '@triplock/ledger';
import { ledgerApart, openLedgerCopy } from '@triplock/ledgers';
import { openForCommand, type Database, type Queryable } from '@triplock/postgres';
import { inspectClaims } from '@triplock/claim-stores';
import type { ClaimsInspector } from '@triplock/claims';
import { createLogger, shareReads } from '@triplock/runtime';
import { openTopicReader, type TopicReader } from '@triplock/transport';
import { Kafka, logLevel } from 'kafkajs';
import { askAuditor, type AuditReport } from '@triplock/inspect';
import { openPartner, type Partner } from './partner.ts';

/** A running system, as the demo's commands work with it: from outside. */
export type System = {
  /** The folder of the instance, where its logs are. */
  home: string;
  /** As of the last {@link System.restore}. */
  endpoints: Endpoints;
  /** What its things are called in the parts. */
  names: Names;
  /**
   * Reads everything, writes nothing. What it shows of a ledger in a database of its own is up to
   * two seconds old.
   */
  database: Database;
  /** The same as of now. */
  ledger: LedgerNow;
  /** The claim store, past the gateways. */
  claims: ClaimsInspector;
  kafka: Kafka;
  /** The topic of accepted payments. */
  accepted: TopicReader;
  partner(id: 'acme' | 'globex'): Partner;
  replicas(service: ServiceName): ServiceEndpoint[];
  /**
   * Starts again what was killed and has what stands still go on; returns when all is ready.
   * Ctrl-C ends it, unless it is given another signal to listen to.
   */
  restore(signal?: AbortSignal): Promise<void>;
  /**
   * Has services work with other settings while `work` goes on: those that they change are started
   * again. Where `work` fails or is broken off, the next `restore` gives them the usual ones.
   */
  withSettings<Result>(settings: SettingsOfServices, work: () => Promise<Result>): Promise<Result>;
  /** One line of what is done to the system. */
  report(line: string): void;
  /** What is being waited for. */
  progress(text: string): void;
  /** Aborted by Ctrl-C. */
  signal: AbortSignal;
  close(): Promise<void>;
};

/** How a command shows what happens, and is interrupted. */
export type Invocation = { terminal: Terminal; signal: AbortSignal };

/** Brings up what is missing of an instance and connects to it. */
export async function startSystem(
  instance: {
    home: string | undefined;
    replicas: number | undefined;
    parts?: 'native' | 'docker' | undefined;
    agent?: 'up';
  },
  invocation: Invocation,
): Promise<System> {
  const { parts = 'choose' as const, agent } = instance;
  const asked = { ...wanted(instance, invocation), parts, ...(agent && { agent }) };
  return openSystem(await bringUp(asked), alone(invocation));
}

/**
 * Connects to an instance that runs.
 *
 * @throws UsageError that says how to start it when it does not.
 */
export async function findSystem(
  home: string | undefined,
  invocation: Invocation,
): Promise<System> {
  const { endpoints, running } = await runningSystem(home);
  if (endpoints !== undefined && 'gateways' in endpoints && running.length > 0) {
    return openSystem(endpoints, alone(invocation));
  }
  throw new UsageError(`the system is not up: start it with \`${startCommand(home)}\``);
}

/** The same system; `receive` gets every line that is reported of it. */
export function withReport(system: System, receive: (line: string) => void): System {
  return {
    ...system,
    // They change while processes are started again.
    get endpoints() {
      return system.endpoints;
    },
    report: (line) => {
      receive(line);
      system.report(line);
    },
  };
}

function wanted(
  { home, replicas }: { home: string | undefined; replicas: number | undefined },
  { terminal, signal }: Invocation,
) {
  return {
    report: (line: string) => terminal.progress(line),
    signal,
    ...(home !== undefined && { home }),
    ...(replicas !== undefined && { replicas }),
  };
}

/** How a system that is up is worked with. */
export type Handling = Invocation & {
  names: Names;
  /** Brings up what is missing of an instance. */
  bringUp: (options: BringUp) => Promise<Endpoints>;
};

/** One that has its parts to itself. */
function alone(invocation: Invocation): Handling {
  return { ...invocation, names: usualNames, bringUp };
}

/** Connects to a system that is up. */
export async function openSystem(endpoints: Endpoints, handling: Handling): Promise<System> {
  const { terminal, signal, names } = handling;
  // Every wait and every bringUp listens for Ctrl-C.
  setMaxListeners(0, signal);
  const { home } = endpoints;
  const database = openForCommand({
    url: endpoints.databases.auditor,
    applicationName: 'demo',
    connectionsMax: 4,
    readOnly: true,
  });
  const ledger = await openLedgerNow(endpoints, names, database);
  const claims = await inspectClaims(claimStoreAt(endpoints.claims, endpoints, names.claims));
  const brokers = endpoints.kafka.split(',');
  const logger = createLogger({ service: 'demo', instance: 'demo', level: 'silent' });
  const topic = names.acceptedTopic;
  const accepted = openTopicReader({ brokers, clientId: 'demo', logger, topic });
  let settings: SettingsOfServices = {};
  const system: System = {
    home,
    endpoints,
    names,
    database,
    ledger,
    claims,
    accepted,
    kafka: new Kafka({ clientId: 'demo', brokers, logLevel: logLevel.NOTHING }),
    partner: (id) => {
      const { gateways, partners } = system.endpoints;
      return openPartner({ ...partners.find((each) => each.id === id)!, gateways });
    },
    replicas: (service) => system.endpoints.services.filter((each) => each.service === service),
    restore: async (until = signal) => {
      const replicas = system.endpoints.gateways.length;
      const asked = wanted({ home, replicas }, { terminal, signal: until });
      system.endpoints = await handling.bringUp({ ...asked, settings });
    },
    withSettings: async (others, work) => {
      settings = others;
      const usual = () => (settings = {});
      const result = await system.restore().then(work).finally(usual);
      await system.restore();
      return result;
    },
    report: (line) => terminal.line(style.faint('   · ') + line),
    progress: (text) => terminal.progress(text),
    signal,
    close: async () => {
      await Promise.all([claims.close(), ledger.close(), database.close(), accepted.close()]);
    },
  };
  return system;
}

/**
 * Audits the whole system once nothing is in flight any more, or when `waitMs` are over; what is
 * still missing then counts as lost.
 *
 * @throws UsageError when no auditor runs, or none answers.
 */
export function auditSystem(system: System, waitMs: number): Promise<AuditReport> {
  const [auditor] = system.replicas('auditor');
  if (auditor === undefined) {
    throw new UsageError('no auditor runs: `npm run up` starts it again');
  }
  const { signal, progress } = system;
  return askAuditor({ auditorUrl: auditor.health, waitMs, signal, progress });
}

/** The ledger's tables by SQL, as they are when they are asked. */
export type LedgerNow = Queryable & {
  /** A ledger in a database of its own, for what is not copied; else there is none. */
  apart: LedgerInspector | undefined;
  close(): Promise<void>;
};

/** An emulator does one thing at a time, and who looks is not to take it from the services. */
const apartMs = 250;

/**
 * Reads the ledger through `database`. Of a ledger in a database of its own that has a copy, which
 * the auditor brings up to now every other second: whoever looks between a crash and what follows
 * it cannot wait for that, so the copy is brought up to now before each look.
 */
export async function openLedgerNow(
  endpoints: Endpoints,
  names: Names,
  database: Queryable,
): Promise<LedgerNow> {
  const settings = ledgerStoreAt(endpoints.ledger, endpoints, names);
  const apart = await ledgerApart(endpoints.ledger)?.inspect(settings);
  if (apart === undefined) {
    return { query: (sql, values) => database.query(sql, values), apart, close: async () => {} };
  }
  const copyTo = openForCommand({
    url: endpoints.databases.copy,
    applicationName: 'ledger now',
    connectionsMax: 1,
  });
  let opened: ReturnType<typeof openLedgerCopy> | undefined;
  const copy = async () => {
    opened ??= openLedgerCopy(settings, () => copyTo);
    await (await opened)!.copy({ counting: false });
  };
  const bringUpToNow = shareReads(copy, { apartMs });
  return {
    query: async (sql, values) => {
      await bringUpToNow();
      return database.query(sql, values);
    },
    apart,
    close: async () => {
      const copied = await opened?.catch(() => undefined);
      await Promise.all([copied?.close(), apart.close(), copyTo.close()]);
    },
  };
}
