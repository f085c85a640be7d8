import { existsSync, realpathSync, statSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { parseClaimStore, parseLedgerStore, partsForStores } from '../choices.ts';
import { cloneFolder, createHome, type Home, homeAt, writeJson } from '../home.ts';
import { isLocked, withLock } from '../lock.ts';
import { usualParts } from '../parts/start-parts.ts';
import { services } from '../service-table.ts';
import { serviceOf } from '../services.ts';
import { readState, type Report, type State, writeState } from '../session.ts';
import { type ContainerRecord, containersOf, endpointsIn, replicasOf } from './records.ts';

/**
 * Goes on with a system that `docker compose up` brought up, or made anew, without the launcher:
 * afterwards the home knows it as if the launcher had. A home of processes, and one where another
 * launcher is at work, is left as it is.
 */
export async function takeUpContainers(folder: string | undefined, report: Report): Promise<void> {
  const home = homeAt(folder);
  if ((await strangers(home)) === undefined || isLocked(home.lock)) return;
  createHome(folder);
  const { signal } = new AbortController();
  await withLock(home.lock, { report, signal }, async () => {
    const records = await strangers(home);
    if (records === undefined) return;
    const replicas = replicasOf(records);
    const state: State = { ...readState(home), parts: 'docker', replicas, ...storesOf(records) };
    const endpoints = await endpointsIn(home, { state, records });
    writeState(home, state);
    writeJson(home.endpoints, endpoints);
    report('goes on with the containers that docker compose brought up');
  });
}

/** The containers of a whole system that the home does not know, or knew before they were made. */
async function strangers(home: Home): Promise<ContainerRecord[] | undefined> {
  const { parts, processes } = readState(home);
  if (parts === 'native' || Object.keys(processes).length > 0) return undefined;
  // Where no engine answers none are here.
  const records = await containersOf(home).catch(() => []);
  const ours = records.filter(({ madeIn }) => isThisClone(madeIn));
  const postgres = ours.find(({ name }) => name === 'postgres');
  // The credentials are read from it.
  if (postgres?.state !== 'running' || !isWhole(ours)) return undefined;
  return postgres.createdAt.getTime() > writtenAtMs(home.endpoints) ? ours : undefined;
}

function isThisClone(folder: string): boolean {
  return existsSync(folder) && realpathSync(folder) === cloneFolder;
}

function isWhole(records: readonly ContainerRecord[]): boolean {
  const there = new Set(records.map(({ name }) => serviceOf(name)));
  const { claims, ledger } = storesOf(records);
  const needed = [...usualParts, ...services].map(({ name }) => name);
  const optional = partsForStores({ claims, ledger });
  return [...needed, ...optional].every((name) => there.has(name));
}

/** Where the gateways find, by their environment, that claims and the ledger are. */
function storesOf(records: readonly ContainerRecord[]): Pick<State, 'claims' | 'ledger'> {
  const gateway = records.find(({ name }) => serviceOf(name) === 'ingest-gateway');
  const given = parseEnv((gateway?.environment ?? []).join('\n'));
  const claims = parseClaimStore(given['CLAIMS'], 'CLAIMS');
  const ledger = parseLedgerStore(given['LEDGER_STORE'], 'LEDGER_STORE');
  return { ...(claims && { claims }), ...(ledger && { ledger }) };
}

function writtenAtMs(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
