import { setTimeout as delay } from 'node:timers/promises';
import { withDeadline } from '@triplock/runtime';
import { containersOf } from './containers/records.ts';
import {
  type Endpoints,
  isWholeSystem,
  type PartEndpoints,
  readEndpoints,
  serviceEndpoints,
} from './endpoints.ts';
import { howEnded } from './ends.ts';
import { type Home, homeAt, startCommand } from './home.ts';
import { withoutPassword } from './parts/part.ts';
import { allParts, probedPorts, probeOwn } from './parts/start-parts.ts';
import { isPaused, isSameProcess } from './processes/identity.ts';
import { findStranger, probeHttp } from './processes/start.ts';
import { agent, services, servicesHere } from './service-table.ts';
import { serviceOf } from './services.ts';
import { type ProcessRecord, readState, type Restarts, type State } from './session.ts';
import { processNames } from './start-services.ts';
import { inStopOrder } from './stop-order.ts';

/** What takes longer to answer is not ready. All are asked at the same time. */
const probeLimitMs = 2_000;
/** Before a command is refused a part is asked again: on a busy machine it may work and be late. */
const diagnosisLimitMs = 10_000;
const askAgainMs = 100;

/** One process as it is now. */
export type ProcessStatus = {
  name: string;
  pid: number;
  state: 'ready' | 'not ready' | 'paused' | 'gone';
  ports: Readonly<Record<string, number>>;
  /** How often it was started again that had ended by itself, since the system was brought up. */
  restarts: number;
  /** Why it ended, or had ended when it was last started again, where that is known. */
  lastEnd?: string;
};

/** A home as it is now. */
export type SystemStatus = {
  home: string;
  /** Something runs, and everything that was asked is ready. */
  ready: boolean;
  runsIn: 'processes' | 'containers';
  processes: ProcessStatus[];
  /** As `up` left them, with the services that run now; `undefined` when nothing is up. */
  endpoints: Endpoints | PartEndpoints | undefined;
};

/** The home to look at, and optionally only some of its processes. */
export type StatusQuestion = {
  home?: string;
  only?: readonly string[];
  /** A process that is not ready is asked again for so long; by default it is asked once. */
  withinMs?: number;
};

/** Looks at the processes of a home and asks each whether it is ready, in two seconds a try. */
export async function systemStatus(options: StatusQuestion = {}): Promise<SystemStatus> {
  const home = homeAt(options.home);
  const { processes, stateOf, left, runsIn, restartsOf } = await recordsOf(home);
  const names = Object.keys(processes).filter((name) => options.only?.includes(name) ?? true);
  const ordered = inStopOrder(names.sort()).flat();
  const { withinMs = 0 } = options;
  const found = await Promise.all(
    ordered.map(async (name): Promise<ProcessStatus> => {
      const record = processes[name]!;
      const runState = stateOf(record);
      const state =
        runState === 'running' ? await ask(record, { home, left, runsIn, withinMs }) : runState;
      return { name, pid: record.pid, ports: record.ports, state, ...restartsOf(record) };
    }),
  );
  return {
    home: home.folder,
    ready: left !== undefined && found.every(({ state }) => state === 'ready'),
    runsIn,
    processes: found,
    endpoints: left && endpointsNow(left, runningOf({ processes, stateOf })),
  };
}

/** What runs of a home, by name, and where it answers, as {@link systemStatus} has it. */
export type RunningSystem = {
  running: readonly string[];
  endpoints: SystemStatus['endpoints'];
};

/**
 * Looks at the processes of a home and asks none of them whether it is ready: for who only has to
 * find it, and would make a client of every part for that.
 */
export async function runningSystem(folder?: string): Promise<RunningSystem> {
  const { left, ...records } = await recordsOf(homeAt(folder));
  const running = runningOf(records);
  return {
    running: running.map(({ name }) => name),
    endpoints: left && endpointsNow(left, running),
  };
}

function runningOf({ processes, stateOf }: Pick<Records, 'processes' | 'stateOf'>) {
  return Object.values(processes).filter((record) => stateOf(record) !== 'gone');
}

/** Those that the last `up` left, with the services that run now. */
function endpointsNow(left: Endpoints | PartEndpoints, running: readonly ProcessRecord[]) {
  return isWholeSystem(left) ? { ...left, services: serviceEndpoints(running) } : left;
}

/**
 * `cold`: claims were lost, and the ledger is asked about each new key until what was used is read
 * back from it; `left` says what is to be done until then.
 */
export type ClaimState = { state: 'warm' } | { state: 'cold'; left: string };

/**
 * What the gateways say of their claims, in two seconds: cold where any does, since they share the
 * store, and it may have just been lost. `undefined` when none can say.
 */
export async function askClaimState({
  services,
}: Pick<Endpoints, 'services'>): Promise<ClaimState | undefined> {
  const gateways = services.filter(({ service }) => service === 'ingest-gateway');
  const states = await Promise.all(
    gateways.map(({ health }) => readClaimState(new URL('/claims', health)).catch(() => undefined)),
  );
  return states.find((told) => told?.state === 'cold') ?? states.find((told) => told !== undefined);
}

async function readClaimState(url: URL): Promise<ClaimState | undefined> {
  const answer = await fetch(url, { signal: AbortSignal.timeout(probeLimitMs) });
  const { state, left = '' } = (await answer.json()) as { state?: string; left?: string };
  if (state === 'cold') return { state, left };
  return state === 'warm' ? { state } : undefined;
}

/** The same in a phrase, behind "claims are". */
export function describeClaims(claims: ClaimState | undefined): string {
  if (claims === undefined) return 'warm or cold, which no gateway can say';
  return claims.state === 'warm' ? 'warm' : `cold: ${claims.left}`;
}

/** Whether a process runs, without a question whether it is ready. */
export type RunState = 'running' | 'paused' | 'gone';

/**
 * How each process of a service runs that a native home has or should have, the agent left out, and
 * how often it was started again that had ended by itself.
 */
export function runStates(folder: string): { name: string; state: RunState; restarts: number }[] {
  const { processes, replicas, restarts = {} } = readState(homeAt(folder));
  const names = new Set([
    ...processNames(services, replicas),
    ...Object.keys(processes).filter((name) =>
      services.some((each) => each.name === serviceOf(name)),
    ),
  ]);
  return inStopOrder([...names].filter((name) => name !== agent.name))
    .flat()
    .map((name) => {
      const record = processes[name];
      const state = record === undefined ? 'gone' : runStateOf(record);
      return { name, state, restarts: restarts[name]?.count ?? 0 };
    });
}

type Records = {
  processes: State['processes'];
  stateOf(record: ProcessRecord): RunState;
  restartsOf(record: ProcessRecord): Pick<ProcessStatus, 'restarts' | 'lastEnd'>;
  /** Where they answer, as the last `up` left it. */
  left: Endpoints | PartEndpoints | undefined;
  runsIn: SystemStatus['runsIn'];
};

/** What the home runs, as processes or in containers, and what becomes of each. */
async function recordsOf(home: Home): Promise<Records> {
  const { parts, processes, ended = {}, restarts = {} } = readState(home);
  const left = readEndpoints(home);
  if (parts !== 'docker') {
    return {
      processes: { ...servicesIn(ended), ...processes },
      stateOf: runStateOf,
      restartsOf: (record) => restartsIn(home, restarts[record.name], record),
      left,
      runsIn: 'processes',
    };
  }
  const containers = await containersOf(home).catch(() => []);
  const states = new Map<ProcessRecord, RunState>(containers.map((each) => [each, each.state]));
  const byName = Object.fromEntries(containers.map((each) => [each.name, each]));
  return {
    processes: byName,
    stateOf: (record) => states.get(record) ?? 'gone',
    restartsOf: ({ name }) => ({ restarts: byName[name]?.restarts ?? 0 }),
    // `docker compose down` does not know of the file.
    left: containers.length > 0 ? left : undefined,
    runsIn: 'containers',
  };
}

/** A part that is not there may be given from elsewhere by now. */
function servicesIn(ended: State['processes']): State['processes'] {
  const isService = (name: string) => services.some((each) => each.name === serviceOf(name));
  return Object.fromEntries(Object.entries(ended).filter(([name]) => isService(name)));
}

/** Of one that is gone its own last words, before those of the run that it came after. */
function restartsIn(home: Home, counted: Restarts | undefined, record: ProcessRecord) {
  const end = isSameProcess(record) ? undefined : howEnded(home, record);
  const why = end === undefined ? counted?.why : end.by === 'itself' ? end.why : undefined;
  return { restarts: counted?.count ?? 0, ...(why !== undefined && { lastEnd: why }) };
}

function runStateOf(record: ProcessRecord): RunState {
  if (!isSameProcess(record)) return 'gone';
  return isPaused(record.pid) ? 'paused' : 'running';
}

type Found = Pick<Records, 'left' | 'runsIn'> & { home: Home };

async function ask(
  record: ProcessRecord,
  { withinMs, ...found }: Found & { withinMs: number },
): Promise<'ready' | 'not ready'> {
  const until = performance.now() + withinMs;
  for (;;) {
    const checks = checksOf(record, found).map((check) =>
      withDeadline(check, { ms: probeLimitMs, what: record.name }).then(succeeded, failed),
    );
    if ((await Promise.all(checks)).every(Boolean)) return 'ready';
    if (performance.now() >= until) return 'not ready';
    await delay(askAgainMs);
  }
}

const succeeded = () => true;
const failed = () => false;

function checksOf(record: ProcessRecord, { home, left, runsIn }: Found): Promise<void>[] {
  const part = allParts.find(({ name }) => name === record.name);
  if (part) {
    const address = left?.[part.name];
    if (address === undefined) return [];
    if (runsIn === 'containers') return [part.probe(address)];
    const own = { home, pid: record.pid };
    return [probeOwn(part, address, own), answersItself(record, probedPorts(part, record))];
  }
  const service = servicesHere.find(({ name }) => name === serviceOf(record.name));
  const asked = (service?.ports ?? []).filter(({ use }) => record.ports[use] !== undefined);
  const ports = asked.map(({ use }) => record.ports[use]!);
  return [
    ...asked.map(({ ready }, n) => probeHttp(`http://127.0.0.1:${ports[n]}${ready}`)),
    ...(runsIn === 'processes' ? [answersItself(record, ports)] : []),
  ];
}

async function answersItself(record: ProcessRecord, ports: readonly number[]): Promise<void> {
  const stranger = findStranger(record, ports);
  if (stranger !== undefined) throw new Error(stranger);
}

/**
 * What of a home does not do its work now, each in one sentence that ends in the next step; empty
 * when all is well. It takes ten seconds at most, also when something stands still.
 */
export async function unreachableParts(question: StatusQuestion = {}): Promise<string[]> {
  const status = await systemStatus({ withinMs: diagnosisLimitMs, ...question });
  const isAsked = (name: string) => question.only?.includes(name) ?? true;
  const up = startCommand(status.home);
  const given = allParts.flatMap(({ name, ...part }) => {
    const address = status.endpoints?.[name];
    const isOurs = status.processes.some((each) => each.name === name);
    return address === undefined || isOurs || !isAsked(name) ? [] : [{ ...part, name, address }];
  });
  const silent = await Promise.all(
    given.map(({ name, address, probe, given: { variable } }) =>
      withDeadline(probe(address), { ms: probeLimitMs, what: name }).then(
        () => [],
        () => [`${name} at ${withoutPassword(address)}, given by ${variable}, does not answer`],
      ),
    ),
  );
  return [...status.processes.flatMap((each) => describeUnreachable(each, up)), ...silent.flat()];
}

function describeUnreachable({ name, state }: ProcessStatus, up: string): string[] {
  switch (state) {
    case 'ready':
      return [];
    case 'gone':
      return [`${name} is not running: \`${up}\` starts it again`];
    case 'paused':
      return [`${name} stands still: \`${up}\` lets it go on`];
    case 'not ready':
      return [`${name} is not ready: \`npm run logs -- ${name}\` says why`];
    default:
      return state satisfies never;
  }
}
