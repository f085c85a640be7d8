import { join } from 'node:path';
import { chooseParts, type Chosen } from './choose-parts.ts';
import { partsFor, type ClaimStore } from './claim-store.ts';
import { partEndpoints, systemEndpoints, type Endpoints, type PartEndpoints } from './endpoints.ts';
import { webhookSecretsOf } from './credentials.ts';
import { bringUpContainers } from './containers/bring-up-containers.ts';
import { createHome } from './home.ts';
import { writeJson } from './json-file.ts';
import { Interrupted, LauncherError } from './launcher-error.ts';
import { partsForLedger, spannerPlace, type LedgerStore } from './ledger-store.ts';
import { withLock } from './lock.ts';
import { settingsOf, usualNames, type Names } from './names.ts';
import { PartMissing } from './parts/missing-part.ts';
import { startParts, type Addresses } from './parts/start-parts.ts';
import { gatewaysOf, provisionClaims } from './provision/claims.ts';
import { ledgerOf, provisionLedger, refillFrom } from './provision/ledger.ts';
import { provisionSystem } from './provision/system.ts';
import { removeStrays } from './remove-strays.ts';
import { services, type Mode, type Service, type SettingsOfServices } from './services.ts';
import { openSession, type Report, type Session } from './session.ts';
import { portsOfOne, startServices } from './start-services.ts';
import { writeState } from './state.ts';
import { servicesFor, stripePlace } from './stripe-place.ts';
import { stopByName } from './take-down.ts';

/** What to bring up. */
export type BringUp = {
  /** The instance's folder; `.triplock` in the clone unless told. */
  home?: string;
  /** Copies of each service; as many as run already, or one. */
  replicas?: number;
  mode?: Mode;
  /** Where claims are kept; where they are kept already, or in Redis. */
  claims?: ClaimStore;
  /** Where the ledger is kept; where it is already, or in PostgreSQL. It does not move. */
  ledger?: LedgerStore;
  /** What services are told beside their addresses: those started without it are started again. */
  settings?: SettingsOfServices;
  /** Beside another system, instead of with parts of its own. */
  apart?: Apart;
  /**
   * Whether it runs as processes or in containers; as it does already, or as processes. `choose`:
   * as it does already, or as what is there on this machine makes wise.
   */
  parts?: 'native' | 'docker' | 'choose';
  report?: Report;
  /** Aborting it stops what this call started, and rejects. */
  signal?: AbortSignal;
};

/** Where a system is that shares the parts of another one: nothing of it is called as there. */
export type Apart = { parts: Addresses; names: Names };

/**
 * Has the whole system running and ready. What runs already is left alone, so a second call starts
 * only what is missing, such as a process that was killed.
 *
 * @throws LauncherError when a part cannot be had, a port that was asked for is taken, or a process
 * does not get ready; what runs by then goes on running.
 */
export function bringUp(options: BringUp = {}): Promise<Endpoints> {
  return bringUpServices(options, services);
}

/** As {@link bringUp}, without the services and without a schema in the database: for tests. */
export function bringUpParts(options: BringUp = {}): Promise<PartEndpoints> {
  return inSession(options, async (session) =>
    partEndpoints(session.home, await startParts(session, partsAsked(options))),
  );
}

/** As {@link bringUp}, with services of another table. */
export function bringUpServices(options: BringUp, table: readonly Service[]): Promise<Endpoints> {
  return inSession(options, async (session) => {
    const { state, home } = session;
    const chosen = await partsOf(session, options);
    if (chosen.parts === 'docker') return inContainers(session, options);
    const { mode = 'demo', apart } = options;
    const claims = options.claims ?? state.claims ?? 'redis';
    const ledger = ledgerOf(session, options.ledger);
    const addresses = apart?.parts ?? (await startOrMiss(session, { claims, ledger }, chosen));
    if (addresses instanceof PartMissing) return insteadOf(addresses, session, options);
    const names = apart?.names ?? usualNames;
    const settings = merged(settingsOf(names), options.settings ?? {});
    const stripe = await stripePlace(session, table);
    const catcher = await portsOfOne(session, table, 'catcher');
    const catcherUrl = `http://127.0.0.1:${catcher['http']}`;
    await provisionLedger(session, { store: ledger, addresses, names });
    state.parts = 'native';
    state.replicas = options.replicas ?? Math.max(1, state.replicas);
    const { partners } = session.credentials;
    const refill =
      ledger === 'spanner' ? { refill: refillFrom(spannerPlace(addresses, names)) } : {};
    const place = {
      ...(apart ?? usualPlace(addresses)),
      ...refill,
      partners,
      catcher: catcherUrl,
    };
    const database = await provisionSystem(place, session.report);
    const partnersFile = join(home.folder, 'partners.json');
    writeJson(partnersFile, webhookSecretsOf(partners));
    const databases = database.roles;
    // A system apart has its own names in the parts, so nothing of another store is in its way.
    if (apart === undefined)
      await provisionClaims(gatewaysOf(session), { store: claims, addresses, databases });
    const stores = { addresses, names, databases, claims, ledger, stripe };
    const places = { ...stores, partnersFile, dataFolder: home.data };
    await startServices(session, servicesFor(stripe, table), { mode, settings, ...places });
    return systemEndpoints(session, { addresses, names, database, stripe, mode });
  });
}

/**
 * How the home runs. Its data is in the volumes of the one or in the folder of the other.
 *
 * @throws LauncherError when it has data of the other.
 */
async function partsOf({ state, report }: Session, { parts: asked }: BringUp): Promise<Chosen> {
  const before = state.parts;
  if (asked === 'choose') return before === undefined ? chooseParts(report) : { parts: before };
  if (asked !== undefined && before !== undefined && asked !== before) {
    throw new LauncherError(
      `this home runs with --parts ${before} and its data does not move: take another --home, or forget the data (npm run down -- --volumes)`,
    );
  }
  return { parts: asked ?? before ?? 'native' };
}

/** The parts, or that one cannot be had where containers may be tried instead. */
async function startOrMiss(
  session: Session,
  stores: Pick<BringUp, 'claims' | 'ledger'>,
  { otherwise }: Chosen,
): Promise<Addresses | PartMissing> {
  try {
    return await startParts(session, partsAsked(stores));
  } catch (error) {
    if (error instanceof PartMissing && otherwise === 'docker') return error;
    throw error;
  }
}

/** Containers, whose images have to be pulled; both ways are told when they cannot. */
async function insteadOf(
  missing: PartMissing,
  session: Session,
  options: BringUp,
): Promise<Endpoints> {
  session.report('containers after all, because a part is missing here; their images are pulled');
  try {
    return await inContainers(session, options);
  } catch (error) {
    if (!(error instanceof LauncherError)) throw error;
    throw new LauncherError(`${missing.message}\nNor in containers: ${error.message}`, {
      cause: error,
    });
  }
}

function inContainers(session: Session, options: BringUp): Promise<Endpoints> {
  if (Object.keys(options.settings ?? {}).length > 0) {
    const why = 'containers are told their settings by docker-compose.yml';
    throw new LauncherError(`${why}: --parts native takes others, in another --home`);
  }
  const claims = options.claims ?? session.state.claims ?? 'redis';
  const stores = { claims, ledger: ledgerOf(session, options.ledger) };
  return bringUpContainers(session, { stores, replicas: options.replicas });
}

/** The parts that stores need beside the usual ones. */
function partsAsked({ claims, ledger }: Pick<BringUp, 'claims' | 'ledger'>) {
  return [...partsFor(claims), ...partsForLedger(ledger)];
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
    const session = openSession(home, { report, signal });
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
      if (down.length === 0) throw error;
      const left = `what it had started is stopped, and so is ${down.join(', ')}`;
      throw new Interrupted(`${left}: \`npm run up\` starts it again`, { cause: error });
    } finally {
      writeState(home, session.state);
    }
  });
}

/** Settings of both; where both say something, the second wins. */
function merged(some: SettingsOfServices, more: SettingsOfServices): SettingsOfServices {
  const names = [...new Set([...Object.keys(some), ...Object.keys(more)])];
  return Object.fromEntries(names.map((name) => [name, { ...some[name], ...more[name] }]));
}

function usualPlace(parts: Addresses): Apart & { origin: 'given' | 'native' } {
  const given = process.env['DATABASE_URL']?.trim();
  return { parts, names: usualNames, origin: given ? 'given' : 'native' };
}
