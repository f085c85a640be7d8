import { partsForStores } from '../choices.ts';
import { type Endpoints, systemEndpoints } from '../endpoints.ts';
import type { Credentials, Home } from '../home.ts';
import { usualNames } from '../names.ts';
import { redisOwner } from '../parts/redis.ts';
import { allParts } from '../parts/start-parts.ts';
import { databaseUrls } from '../provision/database.ts';
import { services } from '../service-table.ts';
import { declarations } from '../services.ts';
import type { ProcessRecord, State } from '../session.ts';
import { providerNames } from '@triplock/providers';
import { accountAt, givenAccount, simulatorOf } from '../providers.ts';
import { docker, projectOf } from './engine.ts';
import { credentialFiles, inNetwork } from './network.ts';

/** A container of a home that the launcher knows by the name of the process that it stands for. */
export type ContainerRecord = ProcessRecord & {
  container: string;
  state: 'running' | 'paused' | 'gone';
  /** How often the engine has started it again, since it was made. */
  restarts: number;
  /** Whether it does so: not where a container was told to stay dead. */
  isStartedAgain: boolean;
  createdAt: Date;
  /** The folder of the docker-compose.yml that it was made by. */
  madeIn: string;
  /** Its settings, each as `NAME=value`. */
  environment: readonly string[];
};

type Inspected = {
  Id: string;
  Created: string;
  RestartCount: number;
  HostConfig: { RestartPolicy: { Name: string } };
  State: { Status: string; Pid: number; StartedAt: string };
  Config: { Labels: Record<string, string>; Env: string[] };
  NetworkSettings: { Ports: Record<string, { HostPort: string }[] | null> };
};

/** What a port inside of a container is for; that of a part is its only one. */
const usesInside = new Map<string, string>([
  ...declarations.flatMap(({ ports }) =>
    ports.map((each) => [`${each.inside}`, each.use] as const),
  ),
  ...[inNetwork.catcher, ...Object.values(inNetwork.providers)].map(
    (url) => [new URL(url).port, 'http'] as const,
  ),
]);

/** The steps before the services have ended, and are nothing that runs. */
const steps = ['credentials', 'provision'];

/** Every container of the home that goes on running, also one that died. None without an engine. */
export async function containersOf(home: Home): Promise<ContainerRecord[]> {
  const label = `label=com.docker.compose.project=${projectOf(home)}`;
  const ids = await docker('ps', '--all', '--quiet', '--no-trunc', '--filter', label);
  if (ids === '') return [];
  const inspected = JSON.parse(await docker('inspect', ...ids.split('\n'))) as Inspected[];
  const running = inspected
    .filter((each) => !steps.includes(serviceOf(each)))
    .filter(({ Config }) => Config.Labels['com.docker.compose.oneoff'] !== 'True')
    .sort((one, other) => numberOf(one) - numberOf(other));
  // Compose counts on when it makes containers anew for other ports; a name says which of how many.
  return [...Map.groupBy(running, serviceOf).values()].flatMap((copies) =>
    copies.map((each, index) => recordOf(each, index + 1)),
  );
}

const serviceOf = ({ Config }: Inspected) => Config.Labels['com.docker.compose.service']!;
const numberOf = ({ Config }: Inspected) =>
  Number(Config.Labels['com.docker.compose.container-number']);

/** How many of each service there are; 0 where nothing is up. */
export function replicasOf(records: readonly ContainerRecord[]): number {
  const names = records.map(({ name }) => name);
  const copied = services.filter(({ copies }) => copies === 'replicas');
  const counts = copied.map((service) => {
    return names.filter((name) => name.startsWith(`${service.name}-`)).length;
  });
  return Math.max(0, ...counts);
}

function recordOf(inspected: Inspected, number: number): ContainerRecord {
  const { Id, Created, RestartCount, HostConfig, State, Config, NetworkSettings } = inspected;
  const service = serviceOf(inspected);
  const known = services.find(({ name }) => name === service);
  const published = Object.entries(NetworkSettings.Ports).flatMap(([inside, outside]) => {
    const use = (known && usesInside.get(inside.split('/')[0]!)) ?? 'port';
    return outside?.[0] === undefined ? [] : [[use, Number(outside[0].HostPort)] as const];
  });
  return {
    name: known?.copies === 'replicas' ? `${service}-${number}` : service,
    pid: State.Pid,
    startedAt: State.StartedAt,
    ports: Object.fromEntries(published),
    settings: '',
    container: Id,
    state: State.Status === 'running' || State.Status === 'paused' ? State.Status : 'gone',
    restarts: RestartCount,
    isStartedAgain: !['', 'no'].includes(HostConfig.RestartPolicy.Name),
    createdAt: new Date(Created),
    madeIn: Config.Labels['com.docker.compose.project.working_dir'] ?? '',
    environment: Config.Env,
  };
}

/**
 * Where a system answers whose containers all run: where they are published, with the credentials
 * that were made for them.
 */
export async function endpointsIn(
  home: Home,
  { state, records }: { state: State; records: readonly ContainerRecord[] },
): Promise<Endpoints> {
  const find = (name: string) => records.find((each) => each.name === name)!;
  const portOf = (name: string) => find(name).ports['port'];
  const { container } = find('postgres');
  // As the user of our images, whose file it is: without capabilities root may not read it either.
  const kept = await docker('exec', '--user', '1000', container, 'cat', credentialFiles.all);
  const credentials = JSON.parse(kept) as Credentials;
  const optional = partsForStores(state).map((name) => {
    const part = allParts.find((each) => each.name === name)!;
    return [name, part.address({ session: { credentials }, ports: find(name).ports })] as const;
  });
  const owner = `postgres://postgres:${credentials.postgresPassword}@127.0.0.1:${portOf('postgres')}/${usualNames.database}`;
  const processes = Object.fromEntries(records.map((record) => [record.name, record]));
  const accounts = providerNames.map((provider) => {
    const simulated = `http://127.0.0.1:${find(simulatorOf(provider)).ports['http']}`;
    return givenAccount(provider) ?? accountAt(provider, simulated);
  });
  return systemEndpoints(
    { home, state: { ...state, processes }, credentials },
    {
      addresses: {
        redis: redisOwner(credentials, `127.0.0.1:${portOf('redis')}`),
        kafka: `127.0.0.1:${portOf('kafka')}`,
        postgres: owner,
        pubsub: `127.0.0.1:${portOf('pubsub')}`,
        ...Object.fromEntries(optional),
      },
      database: { owner, roles: databaseUrls(owner) },
      accounts,
      mode: 'demo',
    },
  );
}
