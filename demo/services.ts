import type { CrashPointName, ServiceEndpoint, ServiceName } from '@triplock/launcher';
import { CommandError } from '@triplock/command';
import type { System } from './system.ts';

/** A crash point to arm. */
export type CrashOrder = {
  name: CrashPointName;
  action: 'kill' | 'pause';
  /** For `pause`. */
  pauseMs?: number;
};

const adminTimeoutMs = 10_000;

/** Asks a service's admin server. */
export function askAdmin(
  service: ServiceEndpoint,
  request: { path: string; method?: 'GET' | 'POST'; token?: string; timeoutMs?: number },
): Promise<Response> {
  const { path, method = 'GET', token, timeoutMs = adminTimeoutMs } = request;
  const url = new URL(path, service.health);
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  return fetch(url, { method, headers, signal: AbortSignal.timeout(timeoutMs) });
}

/** A Prometheus counter, and the labels that its series must have. */
export type Counter = { name: string; labels?: Readonly<Record<string, string>> };

/** Sum of a counter's series whose labels include the given ones; 0 when there is none yet. */
async function readCounter(service: ServiceEndpoint, counter: Counter): Promise<number> {
  const text = await (await askAdmin(service, { path: '/metrics' })).text();
  return sumSeries(text, counter);
}

/** As {@link readCounter}, on the Prometheus text format (version 0.0.4). */
export function sumSeries(text: string, counter: Counter): number {
  const wanted = Object.entries(counter.labels ?? {}).map(([key, value]) => `${key}="${value}"`);
  return text
    .split('\n')
    .map((line) => /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line))
    .filter((match) => match?.[1] === counter.name)
    .filter((match) => wanted.every((label) => match?.[2]?.split(',').includes(label)))
    .reduce((sum, match) => sum + Number(match?.[3]), 0);
}

/** Times each crash point fired in this process. */
export async function readHits(
  { endpoints }: System,
  service: ServiceEndpoint,
  name: CrashPointName,
): Promise<number> {
  const { controlToken: token } = endpoints;
  const answer = await askAdmin(service, { path: '/crash-points', token });
  const { hits } = (await answer.json()) as { hits: Partial<Record<string, number>> };
  return hits[name] ?? 0;
}

/** Arms a point for its next hit. */
export async function arm(
  system: System,
  service: ServiceEndpoint,
  order: CrashOrder,
): Promise<void> {
  const { name, action, pauseMs = 0 } = order;
  await setCrashPoint(system, service, `name=${name}&action=${action}&pauseMs=${pauseMs}`);
}

/** Disarms a point. */
export async function disarm(
  system: System,
  service: ServiceEndpoint,
  name: CrashPointName,
): Promise<void> {
  await setCrashPoint(system, service, `name=${name}&action=off`);
}

async function setCrashPoint(
  { endpoints }: System,
  service: ServiceEndpoint,
  query: string,
): Promise<void> {
  const { controlToken: token } = endpoints;
  const path = `/crash-points?${query}`;
  const answer = await askAdmin(service, { path, method: 'POST', token });
  if (answer.ok) return;
  const why = `${service.name} refuses crash points (${answer.status})`;
  throw new CommandError(`${why}: they need TRIPLOCK_MODE=demo, which \`npm run up\` sets`);
}

/** How much a counter grew since it was watched. */
export type Watched = { grown(): Promise<number> };

/**
 * Watches a counter over all replicas of a service. A replica that was started meanwhile counts
 * from 0; what a dead one had counted is lost with it.
 */
export async function watchCounter(
  system: System,
  service: ServiceName,
  counter: Counter,
): Promise<Watched> {
  const read = async () => {
    const replicas = system.replicas(service);
    const values = await Promise.all(replicas.map((replica) => readCounter(replica, counter)));
    return new Map(replicas.map(({ pid }, index) => [pid, values[index]!]));
  };
  const before = await read();
  return {
    grown: async () => {
      const now = await read();
      return [...now].reduce((sum, [pid, value]) => sum + value - (before.get(pid) ?? 0), 0);
    },
  };
}
