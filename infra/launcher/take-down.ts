import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { compose, projectOf, requireEngine } from './containers/engine.ts';
import { forgetData } from './data-in-memory.ts';
import {
  defaultHome,
  type Home,
  homeAt,
  oldPartsCache,
  partsCache,
  separateHomes,
} from './home.ts';
import { withLock } from './lock.ts';
import { removePostgresData } from './parts/postgres-data.ts';
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
 * case. Tells what became of its data: a ledger in the Spanner emulator does not outlive it.
 */
export async function takeDown(options: TakeDown = {}): Promise<'kept' | 'forgotten'> {
  const home = homeAt(options.home);
  const report = options.report ?? (() => undefined);
  if (!existsSync(home.folder)) return 'forgotten';
  await endAgent(home, report);
  for (const each of separateHomes(home.folder)) {
    await takeDown({ home: each, data: 'forget', report });
    rmSync(each, { recursive: true, force: true });
  }
  const { signal } = new AbortController();
  return withLock(home.lock, { report, signal }, async () => {
    const session = openSession(home, { report, signal });
    await removeStrays(session);
    rmSync(home.endpoints, { force: true });
    const ends = losesLedger(session);
    const data = ends ? 'forget' : options.data;
    if (session.state.parts === 'docker') await takeDownContainers(session, data);
    await stopByName(session, Object.keys(session.state.processes));
    session.state.replicas = 0;
    delete session.state.agent;
    if (ends) report('spanner: the ledger was in the emulator’s memory and is gone with it');
    if (data === 'forget') forgetHome(session);
    else if (existsSync(home.state)) writeState(home, session.state);
    return data === 'forget' ? 'forgotten' : 'kept';
  });
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

/** Without its ledger everything else that a home keeps speaks of payments that nobody knows. */
function losesLedger({ state }: Session): boolean {
  const ours = state.parts === 'docker' || state.processes['spanner'] !== undefined;
  return state.ledger === 'spanner' && ours;
}

/** Services get as long to finish as processes do: stop_grace_period in docker-compose.yml. */
async function takeDownContainers(session: Session, data: TakeDown['data']): Promise<void> {
  const { home, report, signal } = session;
  await requireEngine('and call down again');
  const volumes = data === 'forget' ? ['--volumes'] : [];
  report(`stopping containers (docker compose -p ${projectOf(home)} down)`);
  await compose({ home, args: ['down', '--remove-orphans', ...volumes], signal });
}

function forgetHome({ home, report }: Session): void {
  removePostgresData(join(home.data, 'postgres'));
  forgetData(home.data);
  for (const each of [home.logs, home.credentials, home.state]) {
    rmSync(each, { recursive: true, force: true });
  }
  rmSync(join(home.folder, 'partners.json'), { force: true });
  // Where a clone fetched programs for itself alone.
  if (home.folder === defaultHome && partsCache() !== oldPartsCache) {
    rmSync(oldPartsCache, { recursive: true, force: true });
  }
  // Last: what it seals is gone.
  for (const keys of [home.webhookKeys, home.actionKeys]) rmSync(keys, { force: true });
  report('its data is forgotten');
}
