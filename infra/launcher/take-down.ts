import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { compose, projectOf, requireEngine } from './containers/engine.ts';
import { forgetData, leadsElsewhere } from './data-in-memory.ts';
import { UsageError } from '@triplock/command';
import { ledgerStoreNamed } from '@triplock/ledgers';
import type { PartDeclaration } from '@triplock/runtime';
import {
  compiledCode,
  defaultHome,
  type Home,
  homeAt,
  isHome,
  oldPartsCache,
  partsCache,
  removeHomeFolder,
  separateHomes,
} from './home.ts';
import type { RunMode } from './choices.ts';
import { removeLock, withLock } from './lock.ts';
import { usualPartsCache } from './programs/installed.mjs';
import { removePostgresData } from './parts/postgres-data.ts';
import { forgetReservations } from './ports.ts';
import { isSameProcess } from './processes/identity.ts';
import { removeStrays, stopProcess } from './processes/stop.ts';
import { agent } from './service-table.ts';
import { openSession, readState, type Report, type Session, writeState } from './session.ts';
import { stopByName, stopOrderOf } from './stop-order.ts';

/** What to take down. */
export type TakeDown = {
  /** The instance's folder; `.triplock` in the clone by default. */
  home?: string;
  /** Whether its data stays for the next `up` or goes with its credentials and logs. */
  data?: 'keep' | 'forget';
  report?: Report;
};

/**
 * Stops every process of a home: services first, which finish what they hold, then the parts.
 * Leaves no process and no port behind, nor what lived beside it. The fetched programs stay in any
 * case. Tells what became of its data: a ledger in a server's memory does not outlive it.
 *
 * @throws UsageError for a folder that holds other things: nothing of it is touched.
 */
export async function takeDown(options: TakeDown = {}): Promise<'kept' | 'forgotten'> {
  const home = homeAt(options.home);
  const report = options.report ?? (() => undefined);
  if (!existsSync(home.folder)) return 'forgotten';
  if (!isHome(home)) {
    if (readdirSync(home.folder).length === 0) return 'forgotten';
    throw new UsageError(
      `${home.folder} is no home of Triplock: \`up\` has not marked it. Nothing in it was touched`,
    );
  }
  await endAgent(home, report);
  for (const each of separateHomes(home.folder)) {
    await takeDown({ home: each, data: 'forget', report });
    rmSync(each, { recursive: true, force: true });
  }
  const { signal } = new AbortController();
  let outcome: 'kept' | 'forgotten' = 'kept';
  const leavesNothing = () => outcome === 'forgotten';
  await withLock(home.lock, { report, signal, leavesNothing }, async () => {
    const session = openSession(home, { report, signal });
    await removeStrays(session);
    rmSync(home.endpoints, { force: true });
    const lost = losesLedgerWith(session);
    const data = lost ? 'forget' : options.data;
    if (session.state.parts === 'docker') await takeDownContainers(session, data);
    await stopByName(session, Object.keys(session.state.processes));
    for (const each of [home.temporary, home.orders]) {
      rmSync(each, { recursive: true, force: true });
    }
    session.state.replicas = 0;
    delete session.state.agent;
    // After this nobody starts anything again.
    delete session.state.ended;
    delete session.state.restarts;
    if (lost) report(`${lost.name}: the ledger was in its memory and is gone with it`);
    if (data === 'forget') {
      await forgetHome(session);
      outcome = 'forgotten';
    } else if (existsSync(home.state)) writeState(home, session.state);
  });
  if (leavesNothing()) removeHomeFolder(home);
  return outcome;
}

/**
 * Ends the agent and what it has under way, before anything else and without the home's lock: what
 * is broken off starts again what it has stopped, which takes the lock, and may drop a home beside
 * this one.
 */
async function endAgent(home: Home, report: Report): Promise<void> {
  const record = readState(home).processes[agent.name];
  if (record === undefined || !isSameProcess(record)) return;
  const { outcome } = await stopProcess(record, stopOrderOf(agent.name));
  report(`${agent.name}: ${outcome}`);
}

/**
 * The server of ours that has the ledger in its memory. Without its ledger everything else that a
 * home keeps speaks of payments that nobody knows.
 */
function losesLedgerWith({ state }: Session): PartDeclaration | undefined {
  const part = state.ledger && ledgerStoreNamed(state.ledger).brings;
  if (part?.keeps !== 'nothing') return undefined;
  const isOurs = state.parts === 'docker' || state.processes[part.name] !== undefined;
  return isOurs ? part : undefined;
}

/** Services get as long to finish as processes do: stop_grace_period in docker-compose.yml. */
async function takeDownContainers(session: Session, data: TakeDown['data']): Promise<void> {
  const { home, report, signal } = session;
  await requireEngine('and call down again');
  const volumes = data === 'forget' ? ['--volumes'] : [];
  report(`stopping containers (docker compose -p ${projectOf(home)} down)`);
  await compose({ home, args: ['down', '--remove-orphans', ...volumes], signal });
}

async function forgetHome({ home, report }: Session): Promise<void> {
  // Where somebody has led it elsewhere only the link is the home's.
  const elsewhere = leadsElsewhere(home.data);
  if (elsewhere === undefined) removePostgresData(join(home.data, 'postgres'));
  else report(`kept: ${elsewhere}, where somebody has led its data`);
  forgetReservations(home);
  await removeLock(join(home.folder, 'load.lock'));
  forgetData(home.data);
  for (const each of [home.logs, home.credentials, home.state]) {
    rmSync(each, { recursive: true, force: true });
  }
  rmSync(join(home.folder, 'partners.json'), { force: true });
  if (home.folder === defaultHome) {
    rmSync(compiledCode, { recursive: true, force: true });
    // Where a clone fetched programs for itself alone.
    if (partsCache() !== oldPartsCache) rmSync(oldPartsCache, { recursive: true, force: true });
  }
  // Last: what it seals is gone.
  for (const keys of [home.webhookKeys, home.actionKeys]) rmSync(keys, { force: true });
  report('its data is forgotten');
}

/**
 * What forgetting a home leaves, and where: what other homes or clones have too, and what a person
 * made.
 */
export function keptBy({ folder }: Home, parts: RunMode | undefined): string[] {
  const cache = usualPartsCache();
  const others = existsSync(folder)
    ? readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory())
    : [];
  return [
    ...(parts === 'docker' ? ['the images of its containers: docker image ls'] : []),
    ...(existsSync(cache) ? [`${cache}: fetched programs, for every clone of this user`] : []),
    ...others.map(({ name }) => {
      const path = join(folder, name);
      if (name === 'load') return `${path}: reports of load`;
      const isHome = existsSync(homeAt(path).state);
      return isHome ? `${path}: an instance of its own (--home)` : path;
    }),
  ];
}
