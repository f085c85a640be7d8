import { type ClaimStore, type LedgerStore, partsForStores } from '../choices.ts';
import type { Endpoints } from '../endpoints.ts';
import { CommandError } from '@triplock/command';
import { movesClaims } from '../provision/claims.ts';
import { services } from '../service-table.ts';
import { serviceOf } from '../services.ts';
import { type Session, writeState } from '../session.ts';
import {
  askEngine,
  compose,
  ComposeFailed,
  type ComposeRun,
  docker,
  dockerOutput,
  projectOf,
  requireEngine,
  restartPolicy,
} from './engine.ts';
import {
  chooseRanges,
  publishedPorts,
  publishedRanges,
  refuseTakenRanges,
  variableOf,
} from './ports.ts';
import { type ContainerRecord, containersOf, endpointsIn, replicasOf } from './records.ts';

type Wanted = {
  /** Where claims and the ledger are kept. */
  stores: { claims: ClaimStore; ledger: LedgerStore };
  /** As many as run, or as the home remembers, where nobody asked for a number. */
  replicas: number | undefined;
};

/**
 * Has the whole system running and ready in containers. What runs is left alone; what died is
 * started again, and what stands still goes on.
 *
 * @throws CommandError in one sentence when the engine cannot; what this call started is stopped.
 */
export async function bringUpContainers(
  session: Session,
  { stores, replicas }: Wanted,
): Promise<Endpoints> {
  const { home, state, report, signal } = session;
  await requireEngine();
  const before = await containersOf(home);
  for (const { name, container, state: was } of before) {
    if (was !== 'paused') continue;
    await docker('unpause', container);
    report(`${name}: goes on`);
  }
  if (before.length === 0) {
    state.published = await publishedPorts(session);
    await chooseRanges(session);
  }
  // What `docker compose up` brought up before stays as many.
  state.replicas = replicas ?? Math.max(1, state.replicas, replicasOf(before));
  const { claims, ledger } = stores;
  const ranges = publishedRanges(session, state.replicas);
  if (before.length === 0) await refuseTakenRanges(ranges, state.replicas);
  const ports = { ...state.published, ...ranges };
  const replicated = { ...ports, TRIPLOCK_REPLICAS: `${state.replicas}` };
  const settings = { ...replicated, CLAIMS: claims, LEDGER_STORE: ledger };
  // Each optional part has the profile of its name.
  const profiles = partsForStores({ claims, ledger });
  const copies = services.filter((service) => service.copies === 'replicas');
  const scale = copies.flatMap(({ name }) => ['--scale', `${name}=${state.replicas}`]);
  const args = ['up', '--detach', '--build', '--wait', '--quiet-pull', ...scale];
  report(`starting containers (docker compose -p ${projectOf(home)} up); images are built first`);
  // Remembered before anything runs: a launcher that is killed leaves containers that can be found.
  const fresh = state.parts === undefined;
  state.parts = 'docker';
  writeState(home, state);
  try {
    await stopGateways(session, { before, claims });
    await composeUp({ home, args, settings, profiles, signal }, before);
  } catch (error) {
    if ((await askEngine()).outcome === 'silent') throw engineEnded(error);
    // Before it is gone with its words.
    const why = error instanceof ComposeFailed ? await explain(session, error, ports) : undefined;
    await stopWhatStarted(session, { before, fresh });
    throw why === undefined ? error : new CommandError(why, { cause: error });
  }
  Object.assign(state, stores);
  const records = await containersOf(home);
  await startAgainFromNowOn(records);
  return endpointsIn(home, { state, records });
}

/** Services that a scenario had stay dead at a crash point are watched by the engine again. */
async function startAgainFromNowOn(records: readonly ContainerRecord[]): Promise<void> {
  const left = records.filter(
    ({ name, isStartedAgain }) =>
      !isStartedAgain && services.some((each) => each.name === serviceOf(name)),
  );
  if (left.length === 0) return;
  await docker('update', '--restart', restartPolicy, ...left.map(({ container }) => container));
}

/** How long what was unwell before may take to get well: a few of its health checks. */
const wellWithinMs = 60_000;

/**
 * Compose gives up on the first container that is unhealthy, also on one that has been so because
 * a part was away which this very call starts again: it is waited for once more.
 */
async function composeUp(run: ComposeRun, before: readonly ContainerRecord[]): Promise<void> {
  const deadline = performance.now() + wellWithinMs;
  for (;;) {
    try {
      return await compose(run);
    } catch (error) {
      const mayGetWell =
        before.length > 0 &&
        error instanceof ComposeFailed &&
        error.words.some((line) => / is unhealthy$/.test(line));
      if (!mayGetWell || performance.now() > deadline) throw error;
    }
  }
}

/** A gateway that goes on with the claims of before would take what the new store does not know. */
async function stopGateways(
  { home, state, report, signal }: Session,
  { before, claims }: { before: readonly ContainerRecord[]; claims: ClaimStore },
): Promise<void> {
  if (before.length === 0 || !movesClaims(state.claims ?? claims, claims)) return;
  report(`ingest-gateway: stopped, because claims move to ${claims}`);
  await compose({ home, args: ['stop', 'ingest-gateway'], signal });
}

/**
 * Nobody is there to stop what had started; it stands still, and comes back with the engine or not.
 */
function engineEnded(cause: unknown): CommandError {
  return new CommandError(
    'the container engine has ended: start it, then call up again, or npm run down',
    { cause },
  );
}

/** Nothing half started stays: containers that did not run before are gone or stopped again. */
async function stopWhatStarted(
  { home, state }: Session,
  { before, fresh }: { before: readonly ContainerRecord[]; fresh: boolean },
): Promise<void> {
  const { signal } = new AbortController();
  if (before.every(({ state }) => state === 'gone')) {
    // A home that never was up has no data but what this call made.
    const volumes = fresh ? ['--volumes'] : [];
    await compose({ home, args: ['down', '--remove-orphans', ...volumes], signal });
    if (fresh) delete state.parts;
    return;
  }
  const ran = new Set(before.filter((each) => each.state !== 'gone').map(({ name }) => name));
  const started = (await containersOf(home)).filter(({ name }) => !ran.has(name));
  if (started.length > 0) await docker('rm', '--force', ...started.map((each) => each.container));
}

/** The sentence in what compose printed that a person can act on. */
async function explain(
  session: Session,
  { words }: ComposeFailed,
  ports: Readonly<Record<string, string>>,
): Promise<string> {
  const { home } = session;
  const all = words.join('\n');
  const port = /(?:bind host port|Bind for|listen tcp4?)\D*127\.0\.0\.1:(\d+)/.exec(all)?.[1];
  if (port !== undefined) {
    const variable = variableOf(Number(port), ports) ?? 'its variable (docs/operating.md)';
    return `port ${port} is taken: free it, or set ${variable} to another`;
  }
  const step = await stepsWords(session);
  if (step !== undefined) return step;
  // Those that print nothing were made, and never begun because of the one that ended.
  for (const dead of (await containersOf(home)).filter(({ state }) => state === 'gone')) {
    const said = await lastWords(dead);
    if (said.length > 0) return inLines(`${dead.name} ended before it was ready`, said);
  }
  return inLines('the containers did not get ready', words.slice(-15));
}

const inLines = (first: string, printed: readonly string[]) =>
  [first, ...printed.map((line) => `  ${line}`)].join('\n');

/** The sentence of a step before the services that failed. */
async function stepsWords({ home }: Session): Promise<string | undefined> {
  const words: string[] = [];
  const args = ['logs', '--no-color', '--no-log-prefix', 'credentials', 'provision'];
  const { signal } = new AbortController();
  await compose({ home, args, signal, show: (line) => words.push(line) });
  return words.findLast((line) => /^triplock (credentials|provision): /.test(line));
}

/** What a container wrote last, on either of its streams. */
async function lastWords({ container }: ContainerRecord): Promise<string[]> {
  const { stdout, stderr } = await dockerOutput('logs', '--tail', '15', container);
  return `${stdout}\n${stderr}`.split('\n').filter((line) => line.trim() !== '');
}
