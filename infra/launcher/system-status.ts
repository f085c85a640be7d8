import { withDeadline } from '@triplock/runtime';
import {
  isWholeSystem,
  readEndpoints,
  serviceEndpoints,
  type Endpoints,
  type PartEndpoints,
} from './endpoints.ts';
import { containersOf } from './containers/container-records.ts';
import { homeAt, type Home } from './home.ts';
import { allParts } from './parts/all-parts.ts';
import { isPaused, isSameProcess } from './processes/identity.ts';
import { services } from './services.ts';
import { probeHttp } from './probe-http.ts';
import { readState, type ProcessRecord, type State } from './state.ts';
import { inStopOrder, serviceOf } from './stop-order.ts';

/** What takes longer to answer is not ready. All are asked at the same time. */
export const probeLimitMs = 2_000;

/** One process as it is now. */
export type ProcessStatus = {
  name: string;
  pid: number;
  state: 'ready' | 'not ready' | 'paused' | 'gone';
  ports: Readonly<Record<string, number>>;
};

/** A home as it is now. */
export type SystemStatus = {
  home: string;
  /** Something runs, and everything that was asked is ready. */
  ready: boolean;
  processes: ProcessStatus[];
  /** As `up` left them, with the services that run now; `undefined` when nothing is up. */
  endpoints: Endpoints | PartEndpoints | undefined;
};

/** The home to look at, and optionally only some of its processes. */
export type StatusQuestion = { home?: string; only?: readonly string[] };

/** Looks at the processes of a home and asks each whether it is ready, in two seconds at most. */
export async function systemStatus(options: StatusQuestion = {}): Promise<SystemStatus> {
  const home = homeAt(options.home);
  const { processes, places, left } = await recordsOf(home);
  const names = Object.keys(processes).filter((name) => options.only?.includes(name) ?? true);
  const ordered = inStopOrder(names.sort()).flat();
  const running = Object.values(processes).filter((record) => places(record) !== 'gone');
  const found = await Promise.all(
    ordered.map((name) => look(processes[name]!, { left, place: places(processes[name]!) })),
  );
  const live = left && isWholeSystem(left) ? { services: serviceEndpoints(running) } : {};
  return {
    home: home.folder,
    ready: left !== undefined && found.every(({ state }) => state === 'ready'),
    processes: found,
    endpoints: left && { ...left, ...live },
  };
}

async function look(
  record: ProcessRecord,
  { left, place }: { left: PartEndpoints | undefined; place: Place },
): Promise<ProcessStatus> {
  const { name, pid, ports } = record;
  return { name, pid, ports, state: place === 'running' ? await ask(record, left) : place };
}

type Place = 'running' | 'paused' | 'gone';

type Records = {
  processes: State['processes'];
  places(record: ProcessRecord): Place;
  /** Where they answer, as the last `up` left it. */
  left: Endpoints | PartEndpoints | undefined;
};

/** What the home runs, as processes or in containers, and what becomes of each. */
async function recordsOf(home: Home): Promise<Records> {
  const { parts, processes } = readState(home);
  const left = readEndpoints(home);
  if (parts !== 'docker') return { processes, places: placeOf, left };
  const containers = await containersOf(home).catch(() => []);
  const states = new Map<ProcessRecord, Place>(containers.map((each) => [each, each.state]));
  const byName = Object.fromEntries(containers.map((each) => [each.name, each]));
  return {
    processes: byName,
    places: (record) => states.get(record) ?? 'gone',
    // `docker compose down` does not know of the file.
    left: containers.length > 0 ? left : undefined,
  };
}

function placeOf(record: ProcessRecord): Place {
  if (!isSameProcess(record)) return 'gone';
  return isPaused(record.pid) ? 'paused' : 'running';
}

async function ask(
  record: ProcessRecord,
  endpoints: PartEndpoints | undefined,
): Promise<ProcessStatus['state']> {
  const checks = checksOf(record, endpoints).map((check) =>
    withDeadline(check, { ms: probeLimitMs, what: record.name }).then(succeeded, failed),
  );
  return (await Promise.all(checks)).every(Boolean) ? 'ready' : 'not ready';
}

const succeeded = () => true;
const failed = () => false;

function checksOf(record: ProcessRecord, endpoints: PartEndpoints | undefined): Promise<void>[] {
  const part = allParts.find(({ name }) => name === record.name);
  const address = part && endpoints?.[part.name];
  if (part) return address === undefined ? [] : [part.probe(address)];
  const service = services.find(({ name }) => name === serviceOf(record.name));
  return (service?.ports ?? [])
    .filter(({ use }) => record.ports[use] !== undefined)
    .map(({ use, ready }) => probeHttp(`http://127.0.0.1:${record.ports[use]}${ready}`));
}
