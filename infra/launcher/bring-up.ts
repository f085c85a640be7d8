import { existsSync } from 'node:fs';
import { join } from 'node:path';
import {
  type ClaimStore,
  type LedgerStore,
  partsForStores,
  type RunMode,
  type Stores,
} from './choices.ts';
import { bringUpContainers } from './containers/start.ts';
import { howEnded, isSameRun } from './ends.ts';
import { type Endpoints, partEndpoints, type PartEndpoints, systemEndpoints } from './endpoints.ts';
import { Interrupted, CommandError } from '@triplock/command';
import { type ListedProvider, providerNames } from '@triplock/providers';
import { PartMissing } from './errors.ts';
import {
  cloneFolder,
  createHome,
  homeAt,
  sealingKeysIn,
  webhookSecretsOf,
  writeJson,
} from './home.ts';
import { withLock } from './lock.ts';
import { type Names, usualNames } from './names.ts';
import type { Addresses } from './parts/part.ts';
import { allParts, portsOfParts, startParts } from './parts/start-parts.ts';
import type { ProcessIdentity } from './processes/identity.ts';
import { removeStrays } from './processes/stop.ts';
import { gatewaysOf, provisionClaims } from './provision/claims.ts';
import { ledgerOf, provisionLedger } from './provision/ledger.ts';
import { provisionSystem } from './provision/system.ts';
import { chooseFirst, openReservations } from './ports.ts';
import { type Chosen, runModeOf } from './run-mode.ts';
import { agent, type Service, services, servicesFor } from './service-table.ts';
import { checkServices, declarations } from './services.ts';
import { openSession, type Report, type Session, writeState } from './session.ts';
import {
  portsOfOne,
  portsOfServices,
  processNames,
  processUrls,
  startServices,
  wireAgent,
} from './start-services.ts';
import { stopByName } from './stop-order.ts';
import { chooseAccounts, simulatorOf } from './providers.ts';
import {
  ledgerStoreAt,
  mergeSettings,
  type Mode,
  settingsOfNames,
  type SettingsOfServices,
} from './wiring.ts';

/** What to bring up. */
export type BringUp = {
  /** The instance's folder; `.triplock` in the clone by default. */
  home?: string;
  /** Copies of each service; as many as run already, or one. */
  replicas?: number;
  mode?: Mode;
  /** Where claims are kept; where they are kept already, or in Redis. */
  claims?: ClaimStore;
  /** Where the ledger is kept; where it is already, or in PostgreSQL. It does not move. */
  ledger?: LedgerStore;
  /**
   * What services are given beside their addresses: those started without it are started again, one
   * after the other.
   */
  settings?: SettingsOfServices;
  /**
   * Services, or processes of one such as `ledger-worker-2`, that are not started; those that run
   * are left alone. All are, without it.
   */
  except?: readonly string[];
  /** The only processes of services that are started, such as `ledger-worker-2`; all. */
  only?: readonly string[];
  /** The agent as well, by which a console breaks things in a demo; as it is already, or not. */
  agent?: 'up';
  /** On the parts of another system, instead of with parts of its own. */
  beside?: Beside;
  /**
   * Whether it runs as processes or in containers; as it does already, or as processes. `choose`:
   * as it does already, or as what is there on this machine makes wise.
   */
  parts?: RunMode | 'choose';
  report?: Report;
  /** Aborting it stops what this call started, and rejects. */
  signal?: AbortSignal;
};

/** The parts of another system, and names in them that it does not use. */
export type Beside = { parts: Addresses; names: Names };

/**
 * Has the whole system running and ready. What runs already is left alone, so a second call starts
 * only what is missing, such as a process that was killed. Services of another clone, or with other
 * settings, are replaced one process after the other.
 *
 * @throws CommandError when a part cannot be had, a port that was asked for is taken, or a process
 * does not get ready; what runs by then goes on running.
 */
export async function bringUp(options: BringUp = {}): Promise<Endpoints> {
  checkServices(cloneFolder, portsBesideServices());
  return bringUpServices(options, services);
}

/** What listens on this machine beside the services. */
export function portsBesideServices(): { name: string; port: number }[] {
  const others = [...allParts, agent, ...services.slice(declarations.length)];
  return others.flatMap(({ name, ports }) => ports.map(({ usual: port }) => ({ name, port })));
}

/**
 * As {@link bringUp}, without the services and without a schema in the database: for tests. With
 * `startedOften` it first makes, once per user, what such parts start faster with from then on.
 */
export function bringUpParts(
  options: BringUp & { pace?: 'startedOften' } = {},
): Promise<PartEndpoints> {
  return inSession(options, async (session) => {
    const wanted = partsForStores(options);
    return partEndpoints(session.home, await startParts(session, wanted, options.pace));
  });
}

/** As {@link bringUp}, with services of another table. */
export function bringUpServices(options: BringUp, table: readonly Service[]): Promise<Endpoints> {
  return inSession(options, async (session) => {
    const chosen = await runModeOf(session, options.parts);
    if (chosen.parts === 'docker') return inContainers(session, options);
    const stores = storesOf(session, options);
    const { beside } = options;
    const wanted = wantedOf(session, options, table);
    await choosePortsFirst(session, { ...wanted, stores });
    const addresses = beside?.parts ?? (await startOrMiss(session, stores, chosen));
    if (addresses instanceof PartMissing) return containersInstead(addresses, session, options);
    const endpoints = await startSystem(session, { ...wanted, stores, addresses });
    // What does not run now is not meant to.
    if (options.only === undefined && options.except === undefined) delete session.state.ended;
    return endpoints;
  });
}

function wantedOf(session: Session, options: BringUp, table: readonly Service[]) {
  const processes = hasAgent(session, options) ? [agent, ...table] : table;
  return { options: sparingAgent(session, options), table: processes };
}

/** A run of a process that has ended by itself, and how often in a row that happened before. */
export type EndedRun = { name: string; run: ProcessIdentity; inARow: number; why?: string };

/**
 * Starts the process of a run that ended by itself again and counts that, as `up NAME` starts it
 * but for the parts: one that is not there was perhaps killed on purpose, and stays as it is. Does
 * nothing where somebody has seen to it meanwhile: has started it, or taken the home down.
 *
 * @throws CommandError when a part is away, or the process does not get ready.
 */
export async function startAgain(
  { name, run, inARow, why }: EndedRun,
  { table = services, ...options }: BringUp & { table?: readonly Service[] },
): Promise<'started' | 'not wanted'> {
  const isOver = new Error('somebody has seen to it');
  if (!existsSync(homeAt(options.home).state)) return 'not wanted';
  const only = { ...options, only: [name] };
  const starting = inSession(only, async (session) => {
    const { state, home } = session;
    const ended = state.ended?.[name];
    const isWanted = ended !== undefined && isSameRun(ended, run) && state.parts === 'native';
    if (!isWanted || howEnded(home, ended).by !== 'itself') throw isOver;
    const stores = storesOf(session, only);
    const wanted = wantedOf(session, only, table);
    if (!processNames(wanted.table, state.replicas).includes(name)) throw isOver;
    await choosePortsFirst(session, { ...wanted, stores });
    const addresses = await startParts(session, partsForStores(stores), 'asTheyAre');
    // Counted before it is there: a launcher that is killed in between leaves one try too many.
    const count = (state.restarts?.[name]?.count ?? 0) + 1;
    const lastAt = new Date().toISOString();
    const counted = { count, inARow: inARow + 1, lastAt, ...(why !== undefined && { why }) };
    state.restarts = { ...state.restarts, [name]: counted };
    writeState(home, state);
    return startSystem(session, { ...wanted, stores, addresses });
  });
  return starting.then(
    () => 'started',
    (error: unknown) => {
      if (error === isOver) return 'not wanted';
      throw error;
    },
  );
}

/** From when it was first asked for until the home is taken down; a system beside one has none. */
function hasAgent({ state }: Session, { agent: asked, mode = 'demo', beside }: BringUp): boolean {
  if (mode !== 'demo' || beside !== undefined) return false;
  if (asked !== undefined) state.agent = asked;
  return state.agent === 'up';
}

/**
 * One that runs is replaced only by who asks for an agent: what brings the system up otherwise may
 * be a job of its own, which would end with it.
 */
function sparingAgent({ state }: Session, options: BringUp): BringUp {
  const running = state.processes[agent.name];
  if (options.agent !== undefined || running === undefined) return options;
  return { ...options, except: [...(options.except ?? []), agent.name] };
}

type SystemToStart = {
  options: BringUp;
  table: readonly Service[];
  stores: Required<Stores>;
  addresses: Addresses;
};

/** Of the parts and the services: one that is taken keeps all from starting, not the last few. */
function choosePortsFirst(
  session: Session,
  { options, table, stores }: Omit<SystemToStart, 'addresses'>,
): Promise<void> {
  const { except, only, beside } = options;
  const wanted = { table, ...(except && { except }), ...(only && { only }) };
  return chooseFirst([
    ...(beside === undefined ? portsOfParts(session, partsForStores(stores)) : []),
    ...portsOfServices(session, wanted, replicasOf(session, options)),
  ]);
}

function replicasOf({ state }: Session, { replicas }: BringUp): number {
  return replicas ?? Math.max(1, state.replicas);
}

/** Everything between the parts and a system that is ready: provisions them, starts services. */
async function startSystem(
  session: Session,
  { options, table, stores, addresses }: SystemToStart,
): Promise<Endpoints> {
  const { state, home } = session;
  const { mode = 'demo', beside } = options;
  const { claims, ledger } = stores;
  const names = beside?.names ?? usualNames;
  const simulators: Partial<Record<ListedProvider, number>> = {};
  for (const provider of providerNames) {
    const { http } = await portsOfOne(session, table, simulatorOf(provider));
    if (http !== undefined) simulators[provider] = http;
  }
  const accounts = chooseAccounts({
    // Any worker will do; this one is always there.
    webhooks: (await portsOfOne(session, table, 'ledger-worker-1'))['webhooks'],
    simulators,
  });
  const catcher = (await portsOfOne(session, table, 'catcher'))['http'];
  await provisionLedger(session, { store: ledger, addresses, names });
  state.parts = 'native';
  state.replicas = replicasOf(session, options);
  const { partners } = session.credentials;
  const given = beside === undefined && Boolean(process.env['DATABASE_URL']?.trim());
  const database = await provisionSystem(
    {
      parts: addresses,
      names,
      partners,
      origin: given ? 'given' : 'native',
      // Roles are the server's: a second system beside the first leaves them their limits, and who
      // gives a database sets their own.
      ...(!given && beside === undefined && { replicas: state.replicas }),
      catcher: `http://127.0.0.1:${catcher}`,
      webhookKeys: sealingKeysIn(home.webhookKeys),
      ledger: ledgerStoreAt(ledger, addresses, names),
    },
    session.report,
  );
  // Made for those who read the file themselves.
  sealingKeysIn(home.actionKeys);
  const partnersFile = join(home.folder, 'partners.json');
  writeJson(partnersFile, webhookSecretsOf(partners));
  const databases = database.roles;
  // A system beside another has its own names in the parts: no other store is in its way.
  if (beside === undefined)
    await provisionClaims(gatewaysOf(session), { store: claims, addresses, databases });
  const { except, only } = options;
  const processes = servicesFor(accounts, table);
  const wanted = { table: processes, ...(except && { except }), ...(only && { only }) };
  const wiredAgent = await wireAgent(session, table);
  await startServices(session, wanted, {
    mode,
    addresses,
    names,
    databases,
    claims,
    ledger,
    accounts,
    partnersFile,
    controlToken: session.credentials.controlToken,
    webhookKeysFile: home.webhookKeys,
    actionKeysFile: home.actionKeys,
    dataFolder: home.data,
    processes: await processUrls(session, processes),
    ...(wiredAgent && { agent: wiredAgent }),
    settings: mergeSettings(settingsOfNames(names), options.settings ?? {}),
  });
  return systemEndpoints(session, { addresses, database, accounts, mode });
}

/** Where claims and the ledger are kept: as asked, as before, or as usual. */
function storesOf(session: Session, { claims, ledger }: BringUp): Required<Stores> {
  const { state } = session;
  return { claims: claims ?? state.claims ?? 'redis', ledger: ledgerOf(state, ledger) };
}

/** The parts, or that one cannot be had where containers may be tried instead. */
async function startOrMiss(
  session: Session,
  stores: Stores,
  { otherwise }: Chosen,
): Promise<Addresses | PartMissing> {
  try {
    return await startParts(session, partsForStores(stores));
  } catch (error) {
    session.signal.throwIfAborted();
    if (error instanceof PartMissing && otherwise === 'docker') return error;
    throw error;
  }
}

/** Containers, whose images have to be pulled; both ways are named when they cannot. */
async function containersInstead(
  missing: PartMissing,
  session: Session,
  options: BringUp,
): Promise<Endpoints> {
  session.report('containers after all, because a part is missing here; their images are pulled');
  try {
    return await inContainers(session, options);
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    throw new CommandError(`${missing.message}\nNor in containers: ${error.message}`, {
      cause: error,
    });
  }
}

function inContainers(session: Session, options: BringUp): Promise<Endpoints> {
  if (Object.keys(options.settings ?? {}).length > 0) {
    const why = 'containers are given their settings by docker-compose.yml';
    throw new CommandError(`${why}: --parts native takes others, in another --home`);
  }
  if (options.only !== undefined) {
    throw new CommandError('containers are started one by one by `docker compose up -d NAME`');
  }
  const stores = storesOf(session, options);
  return bringUpContainers(session, { stores, replicas: options.replicas });
}

async function inSession<Result extends object>(
  options: BringUp,
  work: (session: Session) => Promise<Result>,
): Promise<Result> {
  const home = createHome(options.home);
  const signal = options.signal ?? new AbortController().signal;
  const report = options.report ?? (() => undefined);
  signal.throwIfAborted();
  return withLock(home.lock, { report, signal }, async () => {
    const session = openSession(home, { report, signal, reservations: openReservations(home) });
    await removeStrays(session);
    const ranBefore = Object.keys(session.state.processes);
    try {
      const endpoints = await work(session);
      signal.throwIfAborted();
      writeJson(home.endpoints, endpoints);
      return endpoints;
    } catch (error) {
      if (!signal.aborted) throw error;
      await stopByName(session, session.started);
      // Stopped to be started again, as after a change of settings or of the claim store.
      const down = ranBefore.filter((name) => session.state.processes[name] === undefined);
      // Not the error: a program that the same Ctrl-C ended was taken for one that is missing.
      if (down.length === 0) throw signal.reason;
      const left = `what it had started is stopped, and so is ${down.join(', ')}`;
      throw new Interrupted(`${left}: \`npm run up\` starts it again`, { cause: error });
    } finally {
      writeState(home, session.state);
      // After it is known which processes of the home live.
      session.reservations.release();
    }
  });
}
